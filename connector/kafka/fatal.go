package kafka

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/weirstream/weir/connector"
)

// invalid is a configuration that cannot work, however often it is started.
func invalid(message string) error { return connector.Fatal(errors.New(message)) }

// lasting are the answers by which brokers refuse the job itself: what it may
// do, how it is set up, or what it speaks. Answers that concern one record or
// the state of the cluster are not among them. Those of logins have a remedy.
var lasting = []error{
	kerr.SecurityDisabled,
	kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed,
	kerr.TransactionalIDAuthorizationFailed, kerr.DelegationTokenAuthorizationFailed,
	kerr.UnsupportedVersion, kerr.UnsupportedForMessageFormat, kerr.UnsupportedCompressionType,
	kerr.InvalidTopicException, kerr.InvalidGroupID, kerr.InvalidRequiredAcks, kerr.InvalidConfig, kerr.PolicyViolation,
}

// final marks err as fatal where it is a lasting answer, or a connection that
// is refused for good, and says what to do about the latter. The network is
// none: it may come back.
func final(err error) error {
	if errors.Is(err, connector.ErrFatal) {
		return err
	}
	if r := remedy(err); r != "" {
		return connector.Fatal(fmt.Errorf("%w; %s", err, r))
	}
	for _, l := range lasting {
		if errors.Is(err, l) {
			return connector.Fatal(err)
		}
	}
	return err
}

// refused is an answer that makes asking again useless, with who gave it.
func (c *client) refused(err error) error {
	return fmt.Errorf("kafka at %s: %w", c.names(), final(err))
}

// isAnswer says whether asking again is of no use: the brokers answered, and
// not with something that passes, or will not talk with this client at all.
func isAnswer(err error) bool {
	answer := (*kerr.Error)(nil)
	return errors.As(err, &answer) && !answer.Retriable || remedy(err) != ""
}
