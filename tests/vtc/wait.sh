#!/bin/sh
# wait.sh FILE... - until all of them are there; varnishtest sets the limit.
for f; do
	until [ -e "$f" ]; do sleep 0.05; done
done
