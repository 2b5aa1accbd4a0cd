package kafka

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/weirstream/weir/connector"
)

// invalid is a configuration that cannot work, however often it is started.
func invalid(message string) error { return connector.Fatal(errors.New(message)) }

// lasting are the answers by which brokers refuse the job itself: who it is,
// what it may do, how it is set up, or what it speaks. Answers that concern
// one record or the state of the cluster are not among them.
var lasting = []error{
	kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState, kerr.SecurityDisabled,
	kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed,
	kerr.TransactionalIDAuthorizationFailed, kerr.DelegationTokenAuthorizationFailed,
	kerr.UnsupportedVersion, kerr.UnsupportedForMessageFormat, kerr.UnsupportedCompressionType,
	kerr.InvalidTopicException, kerr.InvalidGroupID, kerr.InvalidRequiredAcks, kerr.InvalidConfig, kerr.PolicyViolation,
}

// final marks err as fatal where it is a lasting answer. The network is none:
// it may come back.
func final(err error) error {
	for _, l := range lasting {
		if errors.Is(err, l) {
			return connector.Fatal(err)
		}
	}
	return err
}
