package storage

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
)

// Unreached reports whether a request came to no server that the client can
// talk to: it may be down, or its address may be wrong.
func Unreached(err error) bool {
	var lookup *net.DNSError
	var op *net.OpError
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &lookup) || errors.As(err, &op) && op.Op == "dial" || errors.As(err, &certificate) || errors.Is(err, http.ErrSchemeMismatch)
}
