// Package azure keeps checkpoints and savepoints in Azure Blob Storage:
//
//	runner.Main("page-latency", build, runner.WithStorage(azure.Storage()))
//
// A URL is azblob://CONTAINER/PATH. AZURE_STORAGE_ACCOUNT names the account.
// Credentials are AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN,
// AZURE_STORAGE_CONNECTION_STRING, or what Azure's own tools use: the variables
// AZURE_CLIENT_ID and the like, a managed identity, or the login of az.
package azure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"gocloud.dev/blob/azureblob"

	"github.com/weirstream/weir/internal/idleconn"
	"github.com/weirstream/weir/storage"
	"github.com/weirstream/weir/storage/internal/bucket"
)

// Storage serves azblob://CONTAINER/PATH. The options come last and may change
// everything about the client.
//
// Parameters of a URL are storage_account, domain, protocol and localemu (true
// for an emulator on this machine); they come before AZURE_STORAGE_ACCOUNT,
// AZURE_STORAGE_DOMAIN, AZURE_STORAGE_PROTOCOL and
// AZURE_STORAGE_IS_LOCAL_EMULATOR. There is none for credentials: URLs are
// logged.
func Storage(options ...func(*container.ClientOptions)) storage.Scheme { return scheme{options} }

type scheme struct {
	options []func(*container.ClientOptions)
}

// Schemes implements storage.Scheme.
func (scheme) Schemes() []string { return []string{"azblob"} }

// Open implements storage.Scheme. It sends nothing.
func (s scheme) Open(ctx context.Context, u *url.URL) (storage.Blobs, error) {
	account := azureblob.NewDefaultServiceURLOptions()
	if err := override(account, u.Query()); err != nil {
		return nil, err
	}
	client, err := s.client(account, u.Host)
	if err != nil {
		return nil, err
	}
	b, err := azureblob.OpenBucket(ctx, client, nil)
	if err != nil {
		return nil, err
	}
	return bucket.New(bucket.Config{
		Bucket: b, Name: "azblob://" + u.Host + u.Path, Path: strings.Trim(u.Path, "/"), Place: place(client.URL(), u.Host), Classify: classify,
		Reach: "the account (?storage_account=, AZURE_STORAGE_ACCOUNT) or the domain (?domain=, AZURE_STORAGE_DOMAIN)",
	}), nil
}

// place is the account, by its server.
func place(containerURL, container string) string {
	u, err := url.Parse(containerURL)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(u.Host+strings.TrimSuffix(u.Path, "/"+container), "/")
}

func override(o *azureblob.ServiceURLOptions, params url.Values) error {
	for name, values := range params {
		value := values[0]
		switch name {
		case "storage_account":
			o.AccountName = value
		case "domain":
			o.StorageDomain = value
		case "protocol":
			o.Protocol = value
		case "localemu":
			local, err := strconv.ParseBool(value)
			if err != nil {
				return fmt.Errorf("localemu %q: it is true or false", value)
			}
			o.IsLocalEmulator = local
		default:
			return fmt.Errorf("unknown parameter %q: there are storage_account, domain, protocol and localemu", name)
		}
	}
	return nil
}

func (s scheme) client(account *azureblob.ServiceURLOptions, name string) (*container.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = idleconn.Dial(idleconn.Timeout)
	transport.ResponseHeaderTimeout = idleconn.Timeout
	o := &container.ClientOptions{}
	o.Transport = &http.Client{Transport: transport}
	for _, set := range s.options {
		set(o)
	}
	if account.AccountName == "" {
		return nil, fmt.Errorf("the storage account is not known: set AZURE_STORAGE_ACCOUNT, or add ?storage_account=NAME to the URL: %w", storage.ErrFatal)
	}
	key, connection := os.Getenv("AZURE_STORAGE_KEY"), os.Getenv("AZURE_STORAGE_CONNECTION_STRING")
	if connection == "" {
		connection = os.Getenv("AZURE_STORAGEBLOB_CONNECTIONSTRING")
	}
	if key == "" && account.SASToken == "" && connection != "" {
		client, err := container.NewClientFromConnectionString(connection, name, o)
		if err != nil {
			return nil, fmt.Errorf("AZURE_STORAGE_CONNECTION_STRING: %w: %w", storage.ErrFatal, err)
		}
		return client, nil
	}
	service, err := azureblob.NewServiceURL(account)
	if err != nil {
		return nil, err
	}
	where, err := url.JoinPath(string(service), name)
	switch {
	case err != nil:
		return nil, errors.New("the address of the account is no URL: correct AZURE_STORAGE_DOMAIN") // the error may hold the token
	case key != "":
		shared, err := container.NewSharedKeyCredential(account.AccountName, key)
		if err != nil {
			return nil, fmt.Errorf("AZURE_STORAGE_KEY is no key: %w: %w", storage.ErrFatal, err)
		}
		return container.NewClientWithSharedKeyCredential(where, shared, o)
	case account.SASToken != "":
		return container.NewClientWithNoCredential(where, o)
	}
	login, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", noCredentials, storage.ErrFatal, err)
	}
	return container.NewClient(where, login, o)
}

const (
	noCredentials = "there are no credentials: set AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, log in with az login, or run where an identity provides them"
	noPlainLogin  = "there is no key, and a login is not sent over http: set AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, or use https"
	noContainer   = "the container does not exist: make it, or correct the name"
	accessDenied  = "access is denied: correct AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, or give the identity the role Storage Blob Data Contributor"
)

// classify tells what an error of the client means.
func classify(err error) (kind bucket.Kind, advice string) {
	var response *azcore.ResponseError
	if !errors.As(err, &response) {
		if failed := (*azidentity.AuthenticationFailedError)(nil); errors.As(err, &failed) || strings.Contains(err.Error(), "DefaultAzureCredential") {
			return bucket.NoCredentials, noCredentials
		}
		if strings.Contains(err.Error(), "not permitted for non-TLS") {
			return bucket.Fatal, noPlainLogin
		}
		return bucket.Passing, ""
	}
	switch bloberror.Code(response.ErrorCode) {
	case bloberror.ContainerNotFound:
		return bucket.Fatal, noContainer
	case bloberror.AuthenticationFailed, bloberror.InvalidAuthenticationInfo, bloberror.NoAuthenticationInformation, bloberror.AuthorizationFailure, bloberror.AuthorizationPermissionMismatch, bloberror.InsufficientAccountPermissions,
		bloberror.AuthorizationServiceMismatch, bloberror.AuthorizationResourceTypeMismatch:
		return bucket.Fatal, accessDenied
	case bloberror.BlobNotFound, bloberror.ResourceNotFound:
		return bucket.NotFound, ""
	case bloberror.BlobAlreadyExists, bloberror.ConditionNotMet, bloberror.TargetConditionNotMet:
		return bucket.Exists, ""
	}
	switch {
	case response.StatusCode == http.StatusPreconditionFailed:
		return bucket.Exists, ""
	case response.StatusCode == http.StatusNotFound && response.ErrorCode == "":
		return bucket.NotFound, ""
	case response.StatusCode == http.StatusForbidden && response.ErrorCode == "":
		return bucket.Fatal, accessDenied
	}
	return bucket.Passing, ""
}
