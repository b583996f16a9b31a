package dispatcher

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/duehook/duehook/internal/job"
	"github.com/duehook/duehook/internal/job/contract"
)

// Classes of errors in the attempt log, beside "http_NNN". They are part of the API, and
// reveal nothing about our network.
const (
	classDNSTimeout   = "dns_timeout"
	classDialTimeout  = "connect_timeout"
	classTLSTimeout   = "tls_timeout"
	classTimeout      = "response_timeout"
	classRefused      = "connection_refused"
	classReset        = "connection_reset"
	classUnreachable  = "connection_failed"
	classDNS          = "dns_error"
	classTLS          = "tls_error" // none of the next five
	classTLSExpired   = "tls_expired"
	classTLSAuthority = "tls_unknown_authority"
	classTLSName      = "tls_wrong_name"
	classTLSProtocol  = "tls_protocol"
	classTLSAlert     = "tls_alert"
	classTooLarge     = contract.TooLarge
	classInvalid      = "invalid_response"
	classUnexpected   = contract.Unexpected
	classBadSnooze    = contract.BadSnooze
	classSnoozeLimit  = job.ErrorSnoozeLimit
	classBadAt        = contract.BadAt
	classAtLimit      = job.ErrorRescheduleLimit
	classBlocked      = job.ReasonBlocked // the API has one word for it
	classBadRequest   = "invalid_request"
	classLeaseEnded   = job.ReasonLeaseExpired // of a fetched job
	classNacked       = job.ErrorNacked
)

// classify returns the class of an error of a request with context ctx that reached a
// phase.
func classify(ctx context.Context, err error, reached phase) string {
	var network net.Error
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.Is(err, ErrBlocked):
		return classBlocked
	case errors.Is(ctx.Err(), context.DeadlineExceeded),
		errors.As(err, &network) && network.Timeout():
		return timeoutIn(reached)
	case errors.As(err, &dns):
		return classDNS
	case isTLS(err):
		return classOfTLS(err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return classRefused
	case isReset(err):
		return classReset
	case errors.As(err, &op), errors.Is(err, errNoPermitted):
		return classUnreachable
	case errors.Is(err, errTooManyLines), strings.Contains(err.Error(), "server response headers exceeded"):
		return classTooLarge
	}
	// The rest are errors of net/http about the answer.
	return classInvalid
}

// noFiles reports whether an attempt ended before it had a connection because the process, or the machine, has too many
// open files. That says nothing about the endpoint. The error of a look-up has only the text.
func noFiles(err error, reached phase) bool {
	return reached <= phaseConnect && strings.Contains(err.Error(), syscall.EMFILE.Error())
}

// timeoutIn returns the class of a timeout in a phase.
func timeoutIn(reached phase) string {
	switch reached {
	case phaseDNS:
		return classDNSTimeout
	case phaseTLS:
		return classTLSTimeout
	case phaseAnswer:
		return classTimeout
	default:
		return classDialTimeout
	}
}

func isTLS(err error) bool {
	var record tls.RecordHeaderError
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &record) || errors.As(err, &certificate) {
		return true
	}
	// Most errors of a handshake have no type, but this prefix.
	text := err.Error()
	return strings.Contains(text, "tls: ") || strings.Contains(text, "HTTP response to HTTPS client")
}

// classOfTLS returns the class of an error of TLS: what is wrong with the certificate, or who refused the handshake.
func classOfTLS(err error) string {
	var record tls.RecordHeaderError
	var invalid x509.CertificateInvalidError
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var op *net.OpError
	switch text := err.Error(); {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return classTLSExpired
	case errors.As(err, &authority):
		return classTLSAuthority
	case errors.As(err, &name):
		return classTLSName
	case errors.As(err, &record), strings.Contains(text, "HTTP response to HTTPS client"),
		strings.Contains(text, "protocol version"): // also in an alert; these errors have no type
		return classTLSProtocol
	case errors.As(err, &op) && op.Op == "remote error":
		return classTLSAlert
	}
	return classTLS
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		strings.Contains(err.Error(), "server closed idle connection") // has no type
}
