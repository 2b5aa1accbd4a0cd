package main

import "context"

func (k *kafkaJob) latency(context.Context) error { return nil }
