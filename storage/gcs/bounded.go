package gcs

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"

	gcloud "cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"
)

// bounded ends the attempts of a request. The client counts them, and bounds
// them itself, but for uploads: those it repeats until their context ends.
type bounded struct{ http.RoundTripper }

var attemptOf = regexp.MustCompile(`gccl-attempt-count/(\d+)`)

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	m := attemptOf.FindStringSubmatch(r.Header.Get("X-Goog-Api-Client"))
	if m == nil {
		return answer, err
	}
	if n, bad := strconv.Atoi(m[1]); bad != nil || n < attempts {
		return answer, err
	}
	switch {
	case err != nil:
		return nil, exhausted{err}
	case gcloud.ShouldRetry(&googleapi.Error{Code: answer.StatusCode}):
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10)) // for people
		_ = answer.Body.Close()
		return nil, exhausted{fmt.Errorf("%s: %s", answer.Status, text)}
	}
	return answer, nil
}

// exhausted is why the last attempt failed.
type exhausted struct{ error }

func (e exhausted) Unwrap() error { return e.error }

func (e exhausted) Error() string { return fmt.Sprintf("after %d attempts: %v", attempts, e.error) }

// mayPass reports whether a request is sent again.
func mayPass(err error) bool {
	var last exhausted
	return !errors.As(err, &last) && gcloud.ShouldRetry(err)
}
