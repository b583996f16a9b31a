package hostile

import (
	"bytes"
	"compress/gzip"
	"context"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/duehook/duehook/internal/job"
)

// Classes of errors that several kinds lead to.
const (
	timeout  = "response_timeout"
	slowTLS  = "tls_timeout"
	reset    = "connection_reset"
	tooLarge = "response_too_large"
	invalid  = "invalid_response"
	insecure = "tls_error"
	noTLS    = "tls_protocol"
)

const (
	okHead      = "HTTP/1.1 200 OK\r\n"
	okBody      = okHead + "\r\n"
	chunkedBody = okHead + "Transfer-Encoding: chunked\r\n\r\n"
	// expected is the body that jobs wait for.
	expected = "ok"
)

// big is a piece of a flood.
var big = strings.Repeat("x", 64<<10)

// failing is a kind that is to fail with a class, after the request.
func failing(name, class string, s speech) Kind {
	return Kind{Name: name, Error: class, Fate: Failed, Endless: class == timeout, serve: asked(s)}
}

// expecting is a kind that matters because its body decides.
func expecting(name, class string, s speech) Kind {
	k := failing(name, class, s)
	k.Expect = expected
	return k
}

// harmless is a kind whose answer is good, whatever comes after its head.
func harmless(name string, s speech) Kind {
	return Kind{Name: name, Fate: Delivered, Healthy: true, serve: asked(s)}
}

// answering is a kind that fails with the status of its answer.
func answering(name string, status int, s speech) Kind {
	k := failing(name, "http_"+strconv.Itoa(status), s)
	k.Healthy = status < 500 && status != 429
	return k
}

func healthy(k Kind) Kind {
	k.Healthy = true
	return k
}

// connections break off, or never get going.
func connections() []Kind {
	return []Kind{
		failing("says nothing", timeout, hangUp),
		{
			Name: "does not read", Error: timeout, Fate: Failed, Endless: true,
			serve: func(ctx context.Context, _ net.Conn) { _ = job.Sleep(ctx, job.SystemClock(), time.Minute) },
		},
		failing("closes without a word", reset, saying("")),
		failing("resets", reset, thenReset(saying(""))),
		failing("not HTTP", invalid, saying("SSH-2.0-OpenSSH_9.2\r\n")),
		failing("HTTP/2 goaway", invalid, saying(http2Settings+http2GoAway+"\n")),
		failing("HTTP/2 pings", tooLarge, endlessly(http2Settings, strings.Repeat(http2Ping, 1000))),
		failing("HTTP/2 resets", tooLarge, endlessly(http2Settings, strings.Repeat(http2Reset, 1000))),
	}
}

// Frames of HTTP/2, which nobody has asked for.
const (
	http2Settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	http2Ping     = "\x00\x00\x08\x06\x00\x00\x00\x00\x00" + "duehook!"
	http2GoAway   = "\x00\x00\x08\x07\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x01"
	http2Reset    = "\x00\x00\x04\x03\x00\x00\x00\x00\x01" + "\x00\x00\x00\x08"
)

// heads have something wrong before the body.
func heads() []Kind {
	return []Kind{
		failing("endless status line", tooLarge, endlessly("HTTP/1.1 200 ", big)),
		failing("status is no number", invalid, saying("HTTP/1.1 abc OK\r\n\r\n")),
		failing("breaks off in the head", reset, saying(okHead+"X-A: 1\r\n")),
		failing("endless headers", tooLarge, endlessly(okHead, "X-A: "+big+"\r\n")),
		failing("one endless header", tooLarge, endlessly(okHead+"X-A: ", big)),
		failing("endless folded header", tooLarge, endlessly(okHead+"X-A: x\r\n", strings.Repeat(" x\r\n", 10_000))),
		harmless("headers of 15 KB", saying(okHead+strings.Repeat("X-A: "+big[:150]+"\r\n", 95)+"Content-Length: 0\r\n\r\n")),
		failing("thousands of headers", tooLarge, saying(okHead+smallHeaders()+"Content-Length: 0\r\n\r\n")),
		failing("trickled headers", timeout, trickling(okHead, "X: y\r\n")),
		failing("1xx flood", tooLarge, endlessly("", strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 1000))),
		failing("slow 1xx flood", tooLarge, trickling("", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 200))),
		failing("trickled 1xx", timeout, trickling("", "HTTP/1.1 100 Continue\r\n\r\n")),
		healthy(answering("switching protocols", 101,
			thenHangUp(saying("HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")))),
		answering("redirects to itself", 302, saying("HTTP/1.1 302 Found\r\nLocation: /hook\r\nContent-Length: 0\r\n\r\n")),
		failing("redirects to nonsense", invalid, saying("HTTP/1.1 302 Found\r\nLocation: http://[::1\r\nContent-Length: 0\r\n\r\n")),
		failing("bad content length", invalid, saying(okHead+"Content-Length: -1\r\n\r\n")),
		failing("two content lengths", invalid, saying(okHead+"Content-Length: 1\r\nContent-Length: 2\r\n\r\nx")),
		failing("strange encoding", invalid, saying(okHead+"Transfer-Encoding: braille\r\n\r\n")),
	}
}

// smallHeaders fills the 16 KiB that headers may have with the smallest ones,
// all different: what costs a client most to keep.
func smallHeaders() string {
	const chars = "abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~"
	var b strings.Builder
	for i := 0; b.Len() < 16_000; i++ {
		n := len(chars)
		b.Write([]byte{chars[i%n], chars[i/n%n]})
		if i >= n*n {
			b.WriteByte(chars[i/n/n%n])
		}
		b.WriteString(":\n")
	}
	return b.String()
}

// bodies are wrong, too long or too slow.
func bodies() []Kind {
	const cut = okHead + "Content-Length: 10\r\n\r\nok"
	return []Kind{
		harmless("endless body", endlessly(okBody, big)),
		healthy(expecting("endless body, expected", tooLarge, endlessly(okBody, big))),
		answering("endless body, 500", 500, endlessly("HTTP/1.1 500 No\r\n\r\n", big)),
		endless(harmless("trickled body", trickling(okBody, "x"))),
		expecting("trickled body, expected", timeout, trickling(okBody, "x")),
		endless(answering("trickled body, 500", 500, trickling("HTTP/1.1 500 No\r\n\r\n", "x"))),
		harmless("body cut short", saying(cut)),
		expecting("body cut short, expected", reset, saying(cut)),
		expecting("reset in the body", reset, thenReset(saying(cut))),
		{
			Name: "body longer than said", Expect: expected, Fate: Delivered, Healthy: true,
			serve: asked(saying(okHead + "Content-Length: 2\r\n\r\nok and more")),
		},
		healthy(expecting("body as long as a number can say", tooLarge, endlessly(okHead+"Content-Length: 9223372036854775807\r\n\r\n", big))),
		expecting("huge chunk", invalid, saying(chunkedBody+"ffffffffffffffffff\r\n")),
		expecting("broken chunks", invalid, saying(chunkedBody+"zz\r\n")),
		expecting("chunks of a byte", tooLarge, endlessly(chunkedBody, strings.Repeat("1\r\nx\r\n", 10_000))),
		expecting("endless chunk extension", invalid, endlessly(chunkedBody+"1;", big)),
		expecting("endless trailers", invalid, endlessly(chunkedBody+"0\r\n", "X-A: "+big+"\r\n")),
		harmless("gzip bomb", bomb()),
		healthy(expecting("gzip bomb, expected", "unexpected_body", bomb())),
	}
}

func endless(k Kind) Kind {
	k.Endless = true
	return k
}

// bomb is 8 KB that unpack to 8 MB.
func bomb() speech {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(make([]byte, 8<<20)) // a bytes.Buffer takes everything
	_ = w.Close()
	return saying(okHead + "Content-Encoding: gzip\r\nContent-Length: " + strconv.Itoa(packed.Len()) + "\r\n\r\n" + packed.String())
}

// retryTimes never end, or are nonsense.
func retryTimes() []Kind {
	const day = 24 * time.Hour
	busy := func(name, value string, after time.Duration) Kind {
		k := answering("Retry-After: "+name, 503,
			saying("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nRetry-After: "+value+"\r\n\r\n"))
		k.After = after
		return k
	}
	snooze := func(value string) speech {
		return saying(okHead + "Content-Length: 0\r\nDuehook-Action: snooze\r\nRetry-After: " + value + "\r\n\r\n")
	}
	return []Kind{
		busy("9223372036854775807", "9223372036854775807", day),
		busy("more digits than fit", strings.Repeat("9", 8000), day),
		busy("the year 9999", "Fri, 31 Dec 9999 23:59:59 GMT", day),
		busy("negative", "-9223372036854775808", 0),
		busy("nonsense", "\x80 soon, NaN", 0),
		{
			Name: "snooze: 9223372036854775807", Fate: Snoozed, Healthy: true, After: day,
			serve: asked(snooze("9223372036854775807")),
		},
		healthy(failing("snooze: nonsense", "snooze_without_retry_after", snooze("1e309"))),
	}
}
