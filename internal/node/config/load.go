package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/duehook/duehook/internal/kit/nearest"
)

// ErrHelp is Load's error if the flags ask for help.
var ErrHelp = pflag.ErrHelp

const (
	originDefault = "default"
	originFlag    = "flag --"
	originEnv     = "environment "
	originFile    = "file "
)

// given is the text of a setting and its origin.
type given struct{ text, origin string }

// source has the settings of one source, by name.
type source map[string]given

// Load reads the settings of a command from its flags (without the command's name),
// from environ in the form of os.Environ, and from the YAML file that one of them
// names. The error is ErrHelp, or a *UsageError with one line per problem.
func Load(args, environ []string) (*Config, error) {
	fs := pflag.NewFlagSet("duehook", pflag.ContinueOnError)
	fs.Usage = func() {}
	f := AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		return nil, FlagError(err)
	}
	if fs.NArg() > 0 {
		return nil, Unexpected(fs.Arg(0))
	}
	return f.Load(environ)
}

// Flags are the settings of a command line.
type Flags struct {
	found source
	path  string // of the settings file
}

// AddFlags adds a flag for each setting to the flags of a command.
func AddFlags(fs *pflag.FlagSet) *Flags {
	f := &Flags{found: source{}}
	fs.StringVar(&f.path, configFlag, "", "settings file in YAML")
	for i := range settings {
		s := &settings[i]
		added := fs.VarPF(&flagText{name: s.name, hint: s.hint, list: s.list, into: f.found}, s.name, "", s.help)
		added.DefValue = s.defaultText()
		if s.yesNo {
			added.NoOptDefVal = "true"
		}
	}
	return f
}

// Choices returns the permitted values of the settings that have few.
func Choices() map[string][]string {
	all := map[string][]string{"log-level": {"debug", "info", "warn", "error"}}
	for i := range settings {
		if s := &settings[i]; s.choices != nil {
			all[s.name] = s.choices
		}
	}
	return all
}

// FlagError is the error for a command line that cannot be parsed: ErrHelp or a *UsageError.
func FlagError(err error) error {
	var unknown *pflag.NotExistError
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return ErrHelp
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		return usagef("unknown flag --%s%s", unknown.GetSpecifiedName(), nearest.Hint(unknown.GetSpecifiedName(), flagNames(), "--"))
	}
	return usagef("%v", err)
}

// Unexpected is the error for an argument that is no flag.
func Unexpected(arg string) error {
	return usagef("unexpected argument %q: settings are written as flags, --name value", arg)
}

// Load completes the settings of the command line with those of environ and of the file.
func (f *Flags) Load(environ []string) (*Config, error) {
	env, envPath, envErr := fromEnv(environ)
	file, fileErr := fromFile(cmp.Or(f.path, envPath))

	c := &Config{origins: map[string]string{}}
	problems := []error{envErr, fileErr}
	for i := range settings {
		s := &settings[i]
		if s.def != "" {
			problems = append(problems, c.set(s, given{s.def, originDefault}))
		}
		for _, src := range []source{file, env, f.found} {
			if g, ok := src[s.name]; ok {
				problems = append(problems, c.set(s, g))
			}
		}
	}
	problems = append(problems, c.setPort(environ))
	if err := errors.Join(problems...); err != nil {
		return nil, usagef("%v", err)
	}
	c.derive()
	if err := c.validate(); err != nil {
		return nil, usagef("%v", err)
	}
	return c, nil
}

// portEnv is the variable with which platforms name the port that a program is to serve.
const portEnv = "PORT"

// setPort takes the port of portEnv for an address that nothing else sets. Without keys, it stays on loopback.
func (c *Config) setPort(environ []string) error {
	text := ""
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, portEnv+"="); ok {
			text = value
		}
	}
	if text == "" || c.origins["addr"] != originDefault {
		return nil
	}
	if port, err := strconv.ParseUint(text, 10, 16); err != nil || port == 0 {
		return fmt.Errorf("%s: %q: write a port from 1 to 65535, or set --addr", portEnv, text)
	}
	host := ""
	if c.Open() && !c.InsecureNoAPIKeys {
		host = "127.0.0.1"
	}
	c.Addr, c.origins["addr"] = net.JoinHostPort(host, text), originEnv+portEnv
	return nil
}

func (c *Config) set(s *setting, g given) error {
	if err := s.set(c, g.text); err != nil {
		if s.secret {
			return fmt.Errorf("%s: %w", whereSet(g.origin, s), err)
		}
		return fmt.Errorf("%s: %q: %w", whereSet(g.origin, s), g.text, err)
	}
	c.origins[s.name] = g.origin
	return nil
}

// whereSet names the setting that the user can correct.
func whereSet(origin string, s *setting) string {
	if strings.HasPrefix(origin, originFile) {
		return origin + ": " + s.key()
	}
	return strings.TrimPrefix(strings.TrimPrefix(origin, "flag "), originEnv)
}

// flagText stores the text of a flag; Load applies it in the order of precedence.
type flagText struct {
	name, hint string
	list       bool
	into       source
}

func (f *flagText) Set(text string) error {
	if old, again := f.into[f.name]; again && f.list {
		text = old.text + "," + text
	}
	f.into[f.name] = given{text, originFlag + f.name}
	return nil
}
func (f *flagText) String() string { return "" }
func (f *flagText) Type() string   { return f.hint }

func flagNames() []string {
	names := []string{configFlag}
	for i := range settings {
		names = append(names, settings[i].name)
	}
	return names
}

// kubernetesLink matches the variables that Kubernetes sets in each pod for a service
// named duehook or duehook-something. They are no settings.
var kubernetesLink = regexp.MustCompile(`^DUEHOOK_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// fromEnv reads settings from DUEHOOK_ variables. An empty variable counts as not
// set: container files pass optional variables this way.
func fromEnv(environ []string) (source, string, error) {
	byEnv := map[string]*setting{}
	for i := range settings {
		byEnv[settings[i].env()] = &settings[i]
	}
	found := source{}
	var path string
	var problems []error
	for _, entry := range slices.Sorted(slices.Values(environ)) {
		name, text, _ := strings.Cut(entry, "=")
		base, isFile := strings.CutSuffix(name, fileSuffix)
		switch s := byEnv[name]; {
		case !strings.HasPrefix(name, envPrefix) || text == "" || kubernetesLink.MatchString(name):
		case name == envPrefix+"CONFIG":
			path = text
		case s != nil:
			problems = append(problems, found.add(s, given{text, originEnv + name}))
		case isFile && byEnv[base] != nil && byEnv[base].secret:
			content, err := os.ReadFile(text)
			if err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", name, err))
				continue
			}
			problems = append(problems, found.add(byEnv[base], given{strings.TrimSpace(string(content)), originEnv + name}))
		default:
			problems = append(problems, fmt.Errorf("unknown setting %s in the environment%s", name, nearest.Hint(name, envNames(), "")))
		}
	}
	return found, path, errors.Join(problems...)
}

// add refuses a setting that has both a variable and a file.
func (src source) add(s *setting, g given) error {
	if _, twice := src[s.name]; twice {
		return fmt.Errorf("%s and %s%s are both set; unset one", s.env(), s.env(), fileSuffix)
	}
	src[s.name] = g
	return nil
}

func envNames() []string {
	names := []string{envPrefix + "CONFIG"}
	for i := range settings {
		names = append(names, settings[i].env())
		if settings[i].secret {
			names = append(names, settings[i].env()+fileSuffix)
		}
	}
	return names
}
