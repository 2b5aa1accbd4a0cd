// Package s3 keeps checkpoints and savepoints in Amazon S3 and in servers that
// speak its protocol and support conditional writes:
//
//	runner.Main("page-latency", build, runner.WithStorage(s3.Storage()))
//
// A URL is s3://BUCKET/PATH. Credentials and region come from where the AWS
// tools have them: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION,
// ~/.aws, or the role of the machine or container. For another server set
// AWS_ENDPOINT_URL, or the parameter endpoint: s3://BUCKET/PATH?endpoint=https://minio.example:9000.
package s3

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"
	cloudaws "gocloud.dev/aws"
	"gocloud.dev/blob/s3blob"

	"github.com/weirstream/weir/internal/idleconn"
	"github.com/weirstream/weir/storage"
	"github.com/weirstream/weir/storage/internal/bucket"
)

// Storage serves s3://BUCKET/PATH. The options come last and may change
// everything about the client, for example its credentials.
//
// Parameters of a URL are region, endpoint, use_path_style (true by default
// where there is an endpoint), profile, role (an ARN to assume, with
// role_session_name, role_external_id, role_duration and
// web_identity_token_file), anonymous, dualstack, fips,
// request_checksum_calculation and response_checksum_validation. There is none
// for credentials: URLs are logged.
func Storage(options ...func(*s3.Options)) storage.Scheme { return scheme{options} }

type scheme struct{ options []func(*s3.Options) }

// Schemes implements storage.Scheme.
func (scheme) Schemes() []string { return []string{"s3"} }

// Open implements storage.Scheme. It sends nothing.
func (s scheme) Open(ctx context.Context, u *url.URL) (storage.Blobs, error) {
	client, err := s.client(ctx, u.Query())
	if err != nil {
		return nil, err
	}
	o := client.Options()
	b, err := s3blob.OpenBucket(ctx, client, u.Host, &s3blob.Options{RequestChecksumCalculation: o.RequestChecksumCalculation})
	if err != nil {
		return nil, err
	}
	return bucket.New(bucket.Config{
		Bucket: b, Name: "s3://" + u.Host + u.Path, Path: strings.Trim(u.Path, "/"), Place: place(o.BaseEndpoint),
		Classify: classify, Stale: stale(client, u.Host), Reach: "the endpoint (?endpoint=, AWS_ENDPOINT_URL) or the region (?region=, AWS_REGION)",
	}), nil
}

// place is the server, "" for Amazon's: there the names of buckets are unique.
func place(endpoint *string) string {
	if endpoint == nil {
		return ""
	}
	u, err := url.Parse(*endpoint)
	if err != nil {
		return ""
	}
	return u.Host
}

// conflicts are codes of requests that met another one, the last of them
// versitygw's, where a write met the removal of an empty directory.
var conflicts = []string{"ConditionalRequestConflict", "OperationAborted", "ExistingObjectIsDirectory"}

const defaultRegion = "us-east-1"

func (s scheme) client(ctx context.Context, params url.Values) (*s3.Client, error) {
	endpoint := params.Get("endpoint")
	if e, err := url.Parse(endpoint); endpoint != "" && (err != nil || e.Host == "" || e.Scheme != "http" && e.Scheme != "https" || e.User != nil) {
		return nil, fmt.Errorf("endpoint %q: it is written as in https://minio.example:9000", endpoint)
	}
	var pathStyle *bool
	if text := params.Get("use_path_style"); text != "" {
		style, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("use_path_style %q: it is true or false", text)
		}
		pathStyle = &style
	}
	params.Del("endpoint")
	params.Del("use_path_style")
	cfg, err := cloudaws.V2ConfigFromURLParams(ctx, params)
	if err != nil {
		return nil, fmt.Errorf("the parameters of the URL and the configuration of AWS (AWS_PROFILE, ~/.aws): %w", err)
	}
	cfg.HTTPClient, cfg.Logger = httpClient(), logging.Nop{}
	own := func(o *s3.Options) {
		o.APIOptions = append(o.APIOptions, withGrace)
		if o.Retryer != nil {
			o.Retryer = retry.AddWithErrorCodes(o.Retryer, conflicts...)
		}
		if endpoint != "" {
			o.BaseEndpoint = aws.String(endpoint)
		}
		o.UsePathStyle = o.BaseEndpoint != nil
		if pathStyle != nil {
			o.UsePathStyle = *pathStyle
		}
		if o.Region == "" && o.BaseEndpoint != nil {
			o.Region = defaultRegion // such servers mostly take any
		}
	}
	client := s3.NewFromConfig(cfg, append([]func(*s3.Options){own}, s.options...)...)
	if client.Options().Region == "" {
		return nil, fmt.Errorf("the region of the bucket is not known: set AWS_REGION, or add ?region=REGION to the URL: %w", storage.ErrFatal)
	}
	return client, nil
}

// httpClient gives up where a server stays silent.
func httpClient() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().WithTransportOptions(func(t *httpTransport) {
		t.DialContext = idleconn.Dial(idleconn.Timeout)
		t.ResponseHeaderTimeout = idleconn.Timeout
	})
}

// stale returns the function that aborts uploads in parts that never ended.
func stale(client *s3.Client, bucket string) func(ctx context.Context, prefix string, before time.Time) (int, error) {
	return func(ctx context.Context, prefix string, before time.Time) (int, error) {
		aborted := 0
		pages := s3.NewListMultipartUploadsPaginator(client, &s3.ListMultipartUploadsInput{Bucket: &bucket, Prefix: &prefix})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return aborted, err
			}
			for _, u := range page.Uploads {
				if u.Initiated == nil || !u.Initiated.Before(before) {
					continue
				}
				_, err := client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &bucket, Key: u.Key, UploadId: u.UploadId})
				if err != nil {
					return aborted, err
				}
				aborted++
			}
		}
		return aborted, nil
	}
}
