package hostile

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	mathbig "math/big"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// overTLS is a kind called over HTTPS that speaks for itself at once.
func overTLS(name, class string, s speech) Kind {
	return Kind{Name: name, Error: class, Fate: Failed, Endless: class == slowTLS, TLS: true, serve: s}
}

// handshakes come to nothing.
func handshakes() []Kind {
	return []Kind{
		overTLS("TLS that hangs", slowTLS, hangUp),
		overTLS("TLS in drops", slowTLS, func(ctx context.Context, c net.Conn) {
			_ = tls.Server(&drops{Conn: c, ctx: ctx}, presenting(authority().issue(valid))).HandshakeContext(ctx)
		}),
		overTLS("no TLS", noTLS, afterHello(thenHangUp(saying(okHead+"Content-Length: 0\r\n\r\n")))),
		overTLS("TLS that breaks off", reset, afterHello(saying("\x16\x03\x03\x10"))),
		overTLS("TLS record too long", noTLS, afterHello(endlessly("\x16\x03\x03\xff\xff", big64))),
		overTLS("TLS alert flood", insecure, afterHello(endlessly("", strings.Repeat("\x15\x03\x03\x00\x02\x01\x5a", 1000)))),
		overTLS("TLS of yesterday", noTLS, handshaking(func() *tls.Config {
			c := presenting(authority().issue(valid))
			c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
			return c
		}, nil)),
		overTLS("TLS with client certificates", "tls_alert", handshaking(func() *tls.Config {
			c := presenting(authority().issue(valid))
			c.ClientAuth, c.MaxVersion = tls.RequireAnyClientCert, tls.VersionTLS12 // which asks within the handshake
			return c
		}, nil)),
		overTLS("TLS for another protocol", "tls_alert", afterHello(saying("\x15\x03\x03\x00\x02\x02\x28"))),
	}
}

// big64 is a piece of a flood of zeros.
var big64 = strings.Repeat("\x00", 64<<10)

// certificates are not to be trusted, or are a burden.
func certificates() []Kind {
	present := func(name, class string, make func() tls.Certificate) Kind {
		return overTLS(name, class, handshaking(func() *tls.Config { return presenting(make()) }, nil))
	}
	return []Kind{
		present("expired certificate", "tls_expired", func() tls.Certificate {
			return authority().issue(func(c *x509.Certificate) { c.NotAfter = c.NotBefore.Add(time.Hour) })
		}),
		present("certificate of another", "tls_wrong_name", func() tls.Certificate {
			return authority().issue(func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"another.example"} })
		}),
		present("self-signed certificate", "tls_unknown_authority", selfSigned),
		present("chain of 250 KB", insecure, func() tls.Certificate { return chained(3400) }),
		chain(present("chain of 400 certificates", insecure, func() tls.Certificate { return chained(400) })),
	}
}

func chain(k Kind) Kind {
	k.Chain = true
	return k
}

// chained is a certificate in order, with n more that have nothing to do with
// it and are as small as can be: what costs a client most to read.
func chained(n int) tls.Certificate {
	type validity struct{ NotBefore, NotAfter time.Time }
	type publicKey struct {
		Algorithm pkix.AlgorithmIdentifier
		Key       asn1.BitString
	}
	type content struct {
		Serial    int
		Algorithm pkix.AlgorithmIdentifier
		Issuer    pkix.RDNSequence
		Validity  validity
		Subject   pkix.RDNSequence
		Key       publicKey
	}
	algorithm := pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2}}
	c := authority().issue(valid)
	for serial := range n {
		raw, err := asn1.Marshal(struct {
			Content   content
			Algorithm pkix.AlgorithmIdentifier
			Signature asn1.BitString
		}{
			content{
				Serial: serial + 1, Algorithm: algorithm, Issuer: pkix.RDNSequence{}, Subject: pkix.RDNSequence{},
				Validity: validity{time.Unix(0, 0).UTC(), time.Unix(1<<31, 0).UTC()},
				Key:      publicKey{Algorithm: algorithm},
			}, algorithm, asn1.BitString{},
		})
		if err != nil {
			panic(err)
		}
		c.Certificate = append(c.Certificate, raw)
	}
	return c
}

// floodsOverTLS begin when the handshake is done.
func floodsOverTLS() []Kind {
	trusted := func() *tls.Config { return presenting(authority().issue(valid)) }
	secured := func(k Kind, s speech) Kind {
		k.TLS, k.serve = true, handshaking(trusted, asked(s))
		return k
	}
	return []Kind{
		secured(failing("HTTP/2 pings over TLS", tooLarge, nil), endlessly(http2Settings, strings.Repeat(http2Ping, 1000))),
		secured(failing("endless headers over TLS", tooLarge, nil), endlessly(okHead, "X-A: "+big+"\r\n")),
		secured(harmless("endless body over TLS", nil), endlessly(okBody, big)),
		secured(endless(harmless("trickled body over TLS", nil)), trickling(okBody, "x")),
	}
}

// afterHello speaks once the client has.
func afterHello(s speech) speech {
	return func(ctx context.Context, c net.Conn) {
		if _, err := c.Read(make([]byte, 16<<10)); err == nil {
			s(ctx, c)
		}
	}
}

// handshaking serves TLS; the configuration is made once, when it is needed.
func handshaking(config func() *tls.Config, s speech) speech {
	once := sync.OnceValue(config)
	return func(ctx context.Context, c net.Conn) {
		secure := tls.Server(c, once())
		if secure.HandshakeContext(ctx) == nil && s != nil {
			s(ctx, secure)
		}
	}
}

func presenting(c tls.Certificate) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{c}}
}

// drops writes a byte at a time, slowly.
type drops struct {
	net.Conn
	ctx context.Context
}

func (d *drops) Write(p []byte) (int, error) {
	for i := range p {
		if err := job.Sleep(d.ctx, job.SystemClock(), pace); err != nil {
			return i, err
		}
		if _, err := d.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

// issuer is a certificate authority.
type issuer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// authority is the zoo's own; some of its certificates are in order.
var authority = sync.OnceValue(func() *issuer {
	key := newKey()
	template := newTemplate("the zoo")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	cert := sign(template, template, key, key)
	return &issuer{cert, key}
})

// pem is the authority's certificate, which clients have to trust.
func (i *issuer) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.cert.Raw})
}

// valid leaves a certificate as it is.
func valid(*x509.Certificate) {}

func (i *issuer) issue(change func(*x509.Certificate)) tls.Certificate {
	key, template := newKey(), newTemplate("a server")
	change(template)
	return tls.Certificate{Certificate: [][]byte{sign(template, i.cert, key, i.key).Raw}, PrivateKey: key}
}

func selfSigned() tls.Certificate {
	key, template := newKey(), newTemplate("itself")
	return tls.Certificate{Certificate: [][]byte{sign(template, template, key, key).Raw}, PrivateKey: key}
}

func newTemplate(name string) *x509.Certificate {
	now := job.SystemClock().Now()
	return &x509.Certificate{
		SerialNumber: mathbig.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
}

// newKey and sign cannot fail with what they are given.
func newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}

func sign(template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) *x509.Certificate {
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		panic(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		panic(err)
	}
	return cert
}
