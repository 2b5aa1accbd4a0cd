package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Client asks the REST interface of a job.
type Client struct {
	base string
	http *http.Client
}

// NewClient returns a client of the server at base, "http://127.0.0.1:8081";
// HOST:PORT alone is enough.
func NewClient(base string) (*Client, error) {
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is no address of a job: allowed is HOST:PORT or http://HOST:PORT", base)
	}
	return &Client{base: strings.TrimSuffix(base, "/"), http: &http.Client{
		// A call or two are made of each job.
		Transport: &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment},
		Timeout:   30 * time.Second,
	}}, nil
}

// RefusedError is an answer that is not a success.
type RefusedError struct {
	// Code is that of HTTP.
	Code int
	// Text is what the server said.
	Text string
}

func (e *RefusedError) Error() string { return e.Text }

// maxAnswer bounds an answer: a job has a few hundred vertices at most.
const maxAnswer = 64 << 20

// call sends a request, with body as JSON unless it is nil, and decodes the
// answer into out.
func (c *Client) call(ctx context.Context, method, path string, body, out any) error {
	var sent io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, sent)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s %s%s: %w", method, c.base, path, err)
	}
	if resp.StatusCode/100 != 2 {
		return refused(resp, data)
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("%s%s does not answer as a job does: %w", c.base, path, err)
	}
	return nil
}

func refused(resp *http.Response, data []byte) error {
	e := &RefusedError{Code: resp.StatusCode, Text: fmt.Sprintf("%s: %s", resp.Request.URL, resp.Status)}
	var told Errors
	if err := json.Unmarshal(data, &told); err == nil && len(told.Errors) > 0 {
		e.Text = strings.Join(told.Errors, "\n")
	}
	return e
}

// Jobs are the jobs of the server.
func (c *Client) Jobs(ctx context.Context) (doc JobsOverview, err error) {
	return doc, c.call(ctx, http.MethodGet, "/jobs/overview", nil, &doc)
}

// Job tells of a job.
func (c *Client) Job(ctx context.Context, id string) (doc Job, err error) {
	return doc, c.call(ctx, http.MethodGet, "/jobs/"+url.PathEscape(id), nil, &doc)
}

// Checkpoints tells of a job's checkpoints.
func (c *Client) Checkpoints(ctx context.Context, id string) (doc Checkpoints, err error) {
	return doc, c.call(ctx, http.MethodGet, "/jobs/"+url.PathEscape(id)+"/checkpoints", nil, &doc)
}

// Kind of an operation, as it stands in its path.
type Kind string

// The kinds. What came of a stop stands among the savepoints.
const (
	KindSavepoint  Kind = "savepoints"
	KindCheckpoint Kind = "checkpoints"
)

// Savepoint asks for a savepoint and returns the id of the operation.
func (c *Client) Savepoint(ctx context.Context, id string, r SavepointRequest) (trigger string, err error) {
	return c.trigger(ctx, id, string(KindSavepoint), r)
}

// Stop asks for the job's end with a savepoint.
func (c *Client) Stop(ctx context.Context, id string, r StopRequest) (trigger string, err error) {
	return c.trigger(ctx, id, "stop", r)
}

// Checkpoint asks for a checkpoint.
func (c *Client) Checkpoint(ctx context.Context, id string, r CheckpointRequest) (trigger string, err error) {
	return c.trigger(ctx, id, string(KindCheckpoint), r)
}

func (c *Client) trigger(ctx context.Context, id, what string, body any) (string, error) {
	var doc Accepted
	err := c.call(ctx, http.MethodPost, "/jobs/"+url.PathEscape(id)+"/"+what, body, &doc)
	return doc.RequestID, err
}

// Status tells how an operation is getting on.
func (c *Client) Status(ctx context.Context, id string, kind Kind, trigger string) (doc TriggerStatus, err error) {
	return doc, c.call(ctx, http.MethodGet, fmt.Sprintf("/jobs/%s/%s/%s", url.PathEscape(id), kind, url.PathEscape(trigger)), nil, &doc)
}

// Cancel asks for the job's end without a snapshot.
func (c *Client) Cancel(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodPatch, "/jobs/"+url.PathEscape(id)+"?mode=cancel", nil, &Empty{})
}

// How often Wait asks: first soon, then less and less often.
const (
	firstPoll = 20 * time.Millisecond
	lastPoll  = time.Second
)

// Wait asks again and again until the operation has ended, or ctx.
func (c *Client) Wait(ctx context.Context, id string, kind Kind, trigger string) (Operation, error) {
	for pause := firstPoll; ; pause = min(2*pause, lastPoll) {
		st, err := c.Status(ctx, id, kind, trigger)
		switch {
		case err != nil:
			return Operation{}, err
		case st.Done():
			return *st.Operation, nil
		}
		if err := sleep(ctx, pause); err != nil {
			return Operation{}, err
		}
	}
}

// WaitForEnd asks until the job has ended, or its process does not answer any
// more, and returns its last state, "" if it was not seen.
func (c *Client) WaitForEnd(ctx context.Context, id string) (state JobState, err error) {
	for pause := firstPoll; ; pause = min(2*pause, lastPoll) {
		job, failure := c.Job(ctx, id)
		switch {
		case ctx.Err() != nil:
			return state, context.Cause(ctx)
		case gone(failure):
			return state, nil
		case failure != nil:
			return state, failure
		case job.State.Over():
			return job.State, nil
		}
		state = job.State
		if err := sleep(ctx, pause); err != nil {
			return state, err
		}
	}
}

// gone reports whether an error says that the job's process has ended: nobody
// answers, or one that has another job.
func gone(err error) bool {
	var says *RefusedError
	return err != nil && (!errors.As(err, &says) || says.Code == http.StatusNotFound)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
