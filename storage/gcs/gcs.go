// Package gcs keeps checkpoints and savepoints in Google Cloud Storage:
//
//	runner.Main("page-latency", build, runner.WithStorage(gcs.Storage()))
//
// A URL is gs://BUCKET/PATH. Credentials are Google's application default
// credentials: GOOGLE_APPLICATION_CREDENTIALS, what gcloud has logged in, or
// the service account of the machine or container.
package gcs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	gcloud "cloud.google.com/go/storage"
	"gocloud.dev/blob/gcsblob"
	"golang.org/x/oauth2"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	transport "google.golang.org/api/transport/http"

	"github.com/weirstream/weir/internal/idleconn"
	"github.com/weirstream/weir/storage"
	"github.com/weirstream/weir/storage/internal/bucket"
)

// attempts bounds how often a request is sent.
const attempts = 5

// Storage serves gs://BUCKET/PATH. The options are the client's, for example
// for credentials of one's own. With STORAGE_EMULATOR_HOST=HOST:PORT it uses an
// emulator.
func Storage(options ...option.ClientOption) storage.Scheme { return scheme{options} }

type scheme struct{ options []option.ClientOption }

// Schemes implements storage.Scheme.
func (scheme) Schemes() []string { return []string{"gs"} }

// Open implements storage.Scheme.
func (s scheme) Open(ctx context.Context, u *url.URL) (storage.Blobs, error) {
	return s.open(ctx, u)
}

func (s scheme) open(ctx context.Context, u *url.URL, retry ...gcloud.RetryOption) (storage.Blobs, error) {
	for name := range u.Query() {
		return nil, fmt.Errorf("unknown parameter %q: gs:// takes none", name)
	}
	emulator := os.Getenv("STORAGE_EMULATOR_HOST")
	client, err := s.client(ctx, emulator)
	if err != nil {
		return nil, err
	}
	// All that is done here may be done twice.
	client.SetRetry(append(retry, gcloud.WithPolicy(gcloud.RetryAlways), gcloud.WithMaxAttempts(attempts), gcloud.WithErrorFunc(mayPass))...)
	b, err := gcsblob.OpenBucket(ctx, nil, u.Host, &gcsblob.Options{Client: client})
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return bucket.New(bucket.Config{
		Bucket: b, Name: "gs://" + u.Host + u.Path, Path: strings.Trim(u.Path, "/"), Place: emulator, Classify: classify, Closer: client,
		Reach: "the way to storage.googleapis.com, or STORAGE_EMULATOR_HOST",
	}), nil
}

// client gives up where the server stays silent.
func (s scheme) client(ctx context.Context, emulator string) (*gcloud.Client, error) {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.DialContext = idleconn.Dial(idleconn.Timeout)
	base.ResponseHeaderTimeout = idleconn.Timeout
	if emulator != "" {
		return gcloud.NewClient(ctx, option.WithHTTPClient(&http.Client{Transport: bounded{base}}))
	}
	// A context of the caller's would end the renewal of tokens.
	authenticated, err := transport.NewTransport(context.WithoutCancel(ctx), base,
		append([]option.ClientOption{option.WithScopes(gcloud.ScopeReadWrite)}, s.options...)...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", noCredentials, storage.ErrFatal, err)
	}
	return gcloud.NewClient(ctx, append(s.options[:len(s.options):len(s.options)], option.WithHTTPClient(&http.Client{Transport: bounded{authenticated}}))...)
}

const (
	noCredentials = "there are no credentials: set GOOGLE_APPLICATION_CREDENTIALS, log in with gcloud auth application-default login, or run where a service account provides them"
	noBucket      = "the bucket does not exist: make it, or correct the name"
	accessDenied  = "access is denied: the account needs storage.objects.create, get, list and delete on the bucket, as the role Storage Object User has them"
)

// classify tells what an error of the client means.
func classify(err error) (kind bucket.Kind, advice string) {
	var api *googleapi.Error
	var token *oauth2.RetrieveError
	switch {
	case errors.Is(err, gcloud.ErrBucketNotExist):
		return bucket.Fatal, noBucket
	case errors.As(err, &token):
		return bucket.NoCredentials, noCredentials
	case errors.As(err, &api):
		return classifyStatus(api.Code, err.Error())
	case errors.Is(err, gcloud.ErrObjectNotExist):
		return bucket.NotFound, ""
	}
	return bucket.Passing, ""
}

func classifyStatus(status int, text string) (kind bucket.Kind, advice string) {
	switch status {
	case http.StatusNotFound:
		if strings.Contains(text, "bucket does not exist") {
			return bucket.Fatal, noBucket
		}
		return bucket.NotFound, ""
	case http.StatusPreconditionFailed:
		return bucket.Exists, ""
	case http.StatusConflict:
		return bucket.Conflict, ""
	case http.StatusUnauthorized:
		return bucket.NoCredentials, noCredentials
	case http.StatusForbidden:
		return bucket.Fatal, accessDenied
	}
	return bucket.Passing, ""
}
