package s3

import (
	"errors"
	"net/http"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/weirstream/weir/storage/internal/bucket"
)

type httpTransport = http.Transport

// fatal are the codes of errors that somebody has to mend, with what to do.
var fatal = map[string]string{
	"NoSuchBucket":                       "the bucket does not exist: make it, or correct the name",
	"PermanentRedirect":                  otherRegion,
	"AuthorizationHeaderMalformed":       otherRegion,
	"IllegalLocationConstraintException": otherRegion,
	"InvalidAccessKeyId":                 unknownKey,
	"XAdminUserNotFound":                 unknownKey, // versitygw
	"SignatureDoesNotMatch":              "the secret key is wrong: correct AWS_SECRET_ACCESS_KEY or the profile",
	"InvalidToken":                       "the session token is wrong: correct AWS_SESSION_TOKEN or the profile",
	"AccessDenied":                       accessDenied,
	"Forbidden":                          accessDenied,
	"AllAccessDisabled":                  accessDenied,
	"AccountProblem":                     "the account may not use S3 at present",
	"InvalidBucketName":                  "this is no name of a bucket",
	"NotImplemented":                     "the server does not support a request that is needed (docs/storage.md)",
}

const unknownKey = "the access key is not known there: correct AWS_ACCESS_KEY_ID or the profile"

const otherRegion = "the bucket is in another region: set AWS_REGION, or add ?region=REGION to the URL"

const noCredentials = "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or run where a role provides them"

const accessDenied = "access is denied: the credentials need s3:GetObject, s3:PutObject, s3:DeleteObject, s3:AbortMultipartUpload, " +
	"s3:ListBucket and s3:ListBucketMultipartUploads on the bucket"

// classify tells what an error of the client means.
func classify(err error) (kind bucket.Kind, advice string) {
	var api smithy.APIError
	if errors.As(err, &api) {
		switch code := api.ErrorCode(); code {
		case "NoSuchKey", "NotFound":
			return bucket.NotFound, ""
		case "ExistingObjectIsDirectory", "ObjectParentIsFile":
			return bucket.NotFound, "" // versitygw, where keys are files
		case "PreconditionFailed":
			return bucket.Exists, ""
		case "ConditionalRequestConflict", "OperationAborted":
			return bucket.Conflict, ""
		default:
			if advice, ok := fatal[code]; ok {
				return bucket.Fatal, advice
			}
		}
	}
	var response *awshttp.ResponseError
	if !errors.As(err, &response) {
		if strings.Contains(err.Error(), "get credentials") {
			return bucket.NoCredentials, noCredentials
		}
		return bucket.Passing, ""
	}
	bare := api == nil || api.ErrorCode() == "" // as of a HEAD, which has no body to tell more
	switch status := response.HTTPStatusCode(); {
	case status == http.StatusPreconditionFailed:
		return bucket.Exists, ""
	case status == http.StatusMovedPermanently:
		return bucket.Fatal, fatal["PermanentRedirect"]
	case status == http.StatusNotFound && bare:
		return bucket.NotFound, ""
	case (status == http.StatusForbidden || status == http.StatusUnauthorized) && bare:
		return bucket.Fatal, accessDenied
	}
	return bucket.Passing, ""
}
