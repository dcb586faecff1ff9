#!/bin/sh
# As root of a fresh system: from the tarball in /files to the first answers. Prints what it finds, one fact a line.
set -e
cd /opt
command -v cc g++ clang nvcc && { echo "this system has a compiler"; exit 1; }
start=$(date +%s%N)
tar xzf /files/lambent-*.tar.gz
cd lambent-*
bin/lambent serve >/var/log/lambent 2>&1 &
worker=$!
tries=0
until [ -e /run/lambent/endpoint ]; do
  tries=$((tries + 1))
  if [ $tries -gt 300 ] || ! kill -0 $worker 2>/dev/null; then
    cat /var/log/lambent
    echo "the worker does not start"
    exit 1
  fi
  sleep 0.1
done
bin/lambent deploy examples/01_python_vector_add >/dev/null
bin/lambent invoke vector_add -d '{"count": 1000, "check": true}' 2>/tmp/phases
echo "first_answer_ms $((($(date +%s%N) - start) / 1000000))"
bin/lambent deploy examples/05_native_handler >/dev/null
bin/lambent invoke native -d '{"kernel": "matmul", "check": true}' 2>/dev/null
# The same handler as a client of an executor.
cp -r examples/01_python_vector_add examples/shared_add
sed -i 's/^name = .*/name = "shared_add"/; s/^\[gpu\]/[gpu]\nruntime = "shared"/' examples/shared_add/lambent.toml
bin/lambent deploy examples/shared_add >/dev/null
bin/lambent invoke shared_add -d '{"count": 1000, "check": true}' 2>/dev/null
bin/lambent deploy examples/13_workflow_hello >/dev/null
bin/lambent invoke hello_words -d '{"text": "the quick fox"}' 2>/dev/null
for verb in serve simulate sweep why slices shim bundle; do
  bin/lambent help $verb >/dev/null || echo "help $verb: $?"
done
kill $worker
wait $worker
echo "ended $?"
