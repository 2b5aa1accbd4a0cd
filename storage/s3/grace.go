package s3

import (
	"context"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
)

// grace is how long the beginning and the giving up of an upload in parts go
// on when the upload was cancelled: otherwise parts stay behind, which cost
// money and nobody sees.
const grace = 5 * time.Second

func withGrace(stack *middleware.Stack) error {
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("weir-grace",
		func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
			switch awsmiddleware.GetOperationName(ctx) {
			case "CreateMultipartUpload", "AbortMultipartUpload":
				var cancel context.CancelFunc
				ctx, cancel = outlive(ctx, grace)
				defer cancel()
			}
			return next.HandleInitialize(ctx, in)
		}), middleware.After)
}

// outlive returns a context that ends some time after ctx.
func outlive(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-longer.Done():
		case <-time.After(d):
			cancel()
		}
	})
	return longer, func() {
		stop()
		cancel()
	}
}
