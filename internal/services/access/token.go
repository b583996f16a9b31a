package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"log/slog"
	"strings"
)

// A token is "dh_", the id of its key (40 random bits), "_", a secret (160 random bits) and
// the CRC-32 of all that, each part in lower-case base32. By the prefix and the checksum,
// secret scanners find tokens without false alarms, and errors distinguish mistyped tokens
// from unknown ones.
const (
	tokenPrefix  = "dh_"
	idLength     = 8
	secretLength = 32
	checkLength  = 7
	tokenLength  = len(tokenPrefix) + idLength + 1 + secretLength + checkLength
	tokenLetters = "abcdefghijklmnopqrstuvwxyz234567"
)

var encoding = base32.NewEncoding(tokenLetters).WithPadding(base32.NoPadding)

// Token is the text that a client sends. Only the creator of a key sees it, once. It is
// never stored; formatting or logging it hides the secret.
type Token struct{ text string }

// Reveal returns the token's text.
func (t Token) Reveal() string { return t.text }

func (t Token) String() string { return Redact(t.text) }

// GoString keeps %#v from showing the secret.
func (t Token) GoString() string { return t.String() }

// LogValue keeps logs from showing the secret.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// id returns the id of the token's key.
func (t Token) id() string { return t.text[len(tokenPrefix) : len(tokenPrefix)+idLength] }

func newToken() Token {
	var id [idLength * 5 / 8]byte
	var secret [secretLength * 5 / 8]byte
	_, _ = rand.Read(id[:]) // never fails
	_, _ = rand.Read(secret[:])
	body := tokenPrefix + encoding.EncodeToString(id[:]) + "_" + encoding.EncodeToString(secret[:])
	return Token{body + checksum(body)}
}

func checksum(body string) string {
	return encoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(body))))
}

// parseToken checks the form of a token. Its error does not contain s, and completes the
// sentence "the token …".
func parseToken(s string) (Token, error) {
	if !strings.HasPrefix(s, tokenPrefix) {
		return Token{}, fmt.Errorf("does not begin with %s", tokenPrefix)
	}
	if len(s) != tokenLength {
		return Token{}, fmt.Errorf("has %d characters instead of %d", len(s), tokenLength)
	}
	const idEnd = len(tokenPrefix) + idLength
	body, check := s[:tokenLength-checkLength], s[tokenLength-checkLength:]
	if !isTokenText(s[len(tokenPrefix):idEnd]) || s[idEnd] != '_' || !isTokenText(body[idEnd+1:]) || check != checksum(body) {
		return Token{}, fmt.Errorf("has a wrong checksum: it is mistyped or cut off")
	}
	return Token{s}, nil
}

// isID reports whether s has the form of the id of a token's key.
func isID(s string) bool { return len(s) == idLength && isTokenText(s) }

func isTokenText(s string) bool { return strings.Trim(s, tokenLetters) == "" }

// Digest is the SHA-256 of a token. A slow hash such as bcrypt protects secrets that
// people choose. Nobody can guess 160 random bits however fast the hash is, and with a
// slow one anybody could keep the server busy with wrong tokens.
type Digest [sha256.Size]byte

func (t Token) digest() Digest { return sha256.Sum256([]byte(t.text)) }

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText returns hexadecimal digits.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads hexadecimal digits.
func (d *Digest) UnmarshalText(text []byte) error {
	raw, err := hex.DecodeString(string(text))
	if err != nil || len(raw) != len(d) {
		return fmt.Errorf("must have %d hexadecimal digits", hex.EncodedLen(len(d)))
	}
	*d = Digest(raw)
	return nil
}
