package cli

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/duehook/duehook/client"
	"github.com/duehook/duehook/receiver"
)

// health asks a node whether it is ready.
func (a *app) health() *cobra.Command {
	var address string
	var patience time.Duration
	cmd := &cobra.Command{
		Use: "health", Short: "Exit with 0 if a node is ready, for containers and systemd units", Args: cobra.NoArgs,
		Long: `Exit with 0 if a node is ready, for containers and systemd units. Without --addr, --url and DUEHOOK_URL, it
asks the node of DUEHOOK_ADDR on this machine.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.url == "" {
				a.url = a.nodeURL(address)
			}
			if err := a.connect(); err != nil {
				return err
			}
			defer a.client.Close()
			ctx, cancel := context.WithTimeout(cmd.Context(), patience)
			defer cancel()
			return a.one(a.client.Ready(ctx), func() { a.printf("ready\n") })
		},
	}
	cmd.Flags().StringVar(&address, "addr", "", "host:port of the node")
	cmd.Flags().DurationVar(&patience, "timeout", 3*time.Second, "how long to wait for the answer")
	return cmd
}

// nodeURL is where health finds a node: at an address, or by the settings of a node in the
// environment, as in a container. Empty: as other commands.
func (a *app) nodeURL(address string) string {
	scheme := "http://"
	if address == "" && a.environ["DUEHOOK_URL"] == "" {
		host, port, err := net.SplitHostPort(a.environ["DUEHOOK_ADDR"])
		if err != nil {
			return ""
		}
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = "127.0.0.1"
		}
		address = net.JoinHostPort(host, port)
		if a.environ["DUEHOOK_TLS_CERT"] != "" {
			// The certificate is for the name that clients use. Nothing secret is sent.
			scheme, a.anyCertificate = "https://", true
		}
	}
	if address == "" || strings.Contains(address, "://") {
		return address
	}
	return scheme + address
}

// secretBytes is the length of a signing secret.
const secretBytes = 32

func (a *app) secret() *cobra.Command {
	return parent("secret", "Make signing secrets", &cobra.Command{
		Use: "new", Short: "Print a new signing secret", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			secret := make([]byte, secretBytes)
			_, _ = rand.Read(secret) // never fails
			text := "whsec_" + base64.StdEncoding.EncodeToString(secret)
			if a.json {
				return a.object(fmt.Appendf(nil, `{"secret":%q}`, text))
			}
			a.printf("%s\n", text)
			return nil
		},
	})
}

func (a *app) verify() *cobra.Command {
	var secrets []string
	var old bool
	cmd := &cobra.Command{
		Use: "verify [FILE]", Short: "Verify the signature of a delivery", Args: cobra.MaximumNArgs(1),
		Long: `Verify the signature of a delivery: an HTTP request with its headers and body, as it came, from a
file or standard input. The secret is in --secret or DUEHOOK_SECRET.`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(secrets) == 0 && a.environ["DUEHOOK_SECRET"] != "" {
				secrets = []string{a.environ["DUEHOOK_SECRET"]}
			}
			return a.reading(args, func(in io.Reader) error { return a.verifyRequest(in, secrets, old) })
		},
	}
	cmd.Flags().StringArrayVar(&secrets, "secret", nil, "signing secret, whsec_…; repeatable")
	cmd.Flags().BoolVar(&old, "any-time", false, "accept a signature of any age")
	return cmd
}

func (a *app) verifyRequest(in io.Reader, secrets []string, old bool) error {
	o := receiver.Options{Secrets: secrets}
	if old {
		o.Tolerance = 100 * 366 * 24 * time.Hour
	}
	r, err := receiver.New(o)
	if err != nil {
		return usagef("%v", err)
	}
	req, err := http.ReadRequest(bufio.NewReader(in))
	if err != nil {
		return usagef("this is no HTTP request with headers and body: %v", err)
	}
	d, err := r.Verify(req)
	if err != nil {
		return fmt.Errorf("not verified: %w", err)
	}
	if a.json {
		data, err := json.Marshal(map[string]any{"id": d.ID, "sent_at": d.SentAt.UTC(), "topic": d.Topic, "job_id": d.JobID, "attempt": d.Attempt})
		if err != nil {
			return fmt.Errorf("encode the result: %w", err)
		}
		return a.object(data)
	}
	a.printf("verified: %s, sent %s\n", d.ID, a.when(d.SentAt))
	return nil
}

// server is where a context leads.
type server struct {
	URL   string `json:"url"`
	Token string `json:"token,omitempty"`
}

// settings are the contexts of a user.
type settings struct {
	Current  string            `json:"current,omitempty"`
	Contexts map[string]server `json:"contexts"`
}

func (a *app) settingsFile() string { return filepath.Join(a.ConfigDir, "duehook", "contexts.json") }

func (a *app) readSettings() (settings, error) {
	s := settings{Contexts: map[string]server{}}
	data, err := os.ReadFile(a.settingsFile())
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return s, usagef("the contexts in %s cannot be read, correct or delete the file: %v", a.settingsFile(), err)
	}
	return s, nil
}

// write replaces the file. It has tokens, so only its owner may read it.
func (a *app) writeSettings(s settings) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the contexts: %w", err)
	}
	name := a.settingsFile()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return fmt.Errorf("store the contexts: %w", err)
	}
	if err := os.WriteFile(name+".new", append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("store the contexts: %w", err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		return fmt.Errorf("store the contexts: %w", err)
	}
	return nil
}

// findContext is the context of a name; without one, that in use, or none.
func (a *app) findContext(name string) (server, error) {
	s, err := a.readSettings()
	if name = firstOf(name, s.Current); err != nil || name == "" {
		return server{}, err
	}
	found, ok := s.Contexts[name]
	if !ok {
		return server{}, noContext(name)
	}
	return found, nil
}

func noContext(name string) error {
	return usagef("there is no context %q; duehook context ls lists them", name)
}

func (a *app) contexts() *cobra.Command {
	add := &cobra.Command{
		Use: "add NAME --url URL [--token TOKEN]", Short: "Add or replace a context, and use it", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if a.url == "" {
				return usagef("name the server with --url")
			}
			if _, err := client.New(a.url); err != nil {
				return usagef("%v", err)
			}
			return a.changeSettings(func(s *settings) error {
				s.Contexts[args[0]], s.Current = server{URL: a.url, Token: a.token}, args[0]
				return nil
			})
		},
	}
	use := &cobra.Command{
		Use: "use NAME", Short: "Use a context from now on", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.changeSettings(func(s *settings) error {
				if _, ok := s.Contexts[args[0]]; !ok {
					return noContext(args[0])
				}
				s.Current = args[0]
				return nil
			})
		},
	}
	remove := &cobra.Command{
		Use: "rm NAME", Short: "Remove a context", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.changeSettings(func(s *settings) error {
				if _, ok := s.Contexts[args[0]]; !ok {
					return noContext(args[0])
				}
				delete(s.Contexts, args[0])
				if s.Current == args[0] {
					s.Current = ""
				}
				return nil
			})
		},
	}
	list := &cobra.Command{
		Use: "ls", Short: "List contexts", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			s, err := a.readSettings()
			if err != nil {
				return err
			}
			for _, name := range slices.Sorted(maps.Keys(s.Contexts)) {
				if a.json {
					data, err := json.Marshal(map[string]any{"name": name, "url": s.Contexts[name].URL, "current": name == s.Current})
					if err == nil {
						err = a.object(data)
					}
					if err != nil {
						return err
					}
					continue
				}
				mark := " "
				if name == s.Current {
					mark = "*"
				}
				a.printf("%s %s  %s\n", mark, name, s.Contexts[name].URL)
			}
			return nil
		},
	}
	return parent("context", "Name servers, and choose one", add, use, list, remove)
}

func (a *app) changeSettings(change func(*settings) error) error {
	s, err := a.readSettings()
	if err != nil {
		return err
	}
	if err := change(&s); err != nil {
		return err
	}
	return a.writeSettings(s)
}
