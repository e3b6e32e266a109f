#!/bin/sh
# A worker for Resurgam as a shell script: curl, jq, and a folder of executables. Each is an activity
# of its name: it gets the input as JSON on standard input, and prints its result as JSON. One attempt
# at a time; more of them are more of these.
#
#   ./worker.sh http://127.0.0.1:8460 ./actions      # RESURGAM_TOKEN has the token, if one is asked for
#
# An executable that fails is a failure of the type ExitCode, whose code is the number; 75 means later.
set -eu
url=$1 actions=$2
folder=$(mktemp -d)
session=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
offers=$(for file in "$actions"/*; do [ -x "$file" ] && basename "$file"; done | jq -Rn '[inputs | {name: .}]')

# Asks until there is an answer: what was reported must not be lost with a connection.
ask() {
    jq -n --arg session "$session" '{protocol: 1, session: $session} + input' >"$folder/body"
    until curl --silent --show-error --fail-with-body --max-time 90 --header 'Content-Type: application/json' \
        ${RESURGAM_TOKEN:+--header "Authorization: Bearer $RESURGAM_TOKEN"} \
        --data @"$folder/body" "$url/api/v1/worker/$1" >"$folder/answer"; do
        sleep 1
    done
}

# While an attempt runs, somebody has to say that this worker is there.
beat() {
    while sleep "$(jq '.lease_ms / 3000' "$folder/polled")"; do
        jq -n --arg session "$session" --arg task "$1" '{protocol: 1, session: $session, running: [$task]}' |
            curl --silent --max-time 90 --header 'Content-Type: application/json' \
                ${RESURGAM_TOKEN:+--header "Authorization: Bearer $RESURGAM_TOKEN"} \
                --data @- "$url/api/v1/worker/beat" >/dev/null || true
    done
}

ends= beats=
trap 'ends=yes' TERM INT
trap 'rm -rf "$folder"; [ -z "$beats" ] || kill "$beats" 2>/dev/null || true' EXIT
while [ -z "$ends" ]; do
    jq -n --argjson offers "$offers" '{activities: $offers, max: 1, wait_ms: 20000}' | ask poll
    [ "$(jq '.tasks | length' "$folder/answer")" -gt 0 ] || continue
    jq '.tasks[0]' "$folder/answer" >"$folder/task"
    cp "$folder/answer" "$folder/polled"
    task=$(jq -r .task "$folder/task") activity=$(jq -r .activity "$folder/task")
    beat "$task" &
    beats=$!
    code=0
    jq .input "$folder/task" | "$actions/$activity" >"$folder/result" 2>"$folder/said" || code=$?
    kill "$beats" 2>/dev/null || true
    case $code in
        0) jq --arg task "$task" '{task: $task, result: .}' "$folder/result" ;;
        75) jq -n --arg task "$task" '{task: $task, snooze: "30s"}' ;;
        *) jq -n --arg task "$task" --arg code "$code" --rawfile said "$folder/said" \
            '{task: $task, failure: {type: "ExitCode", code: $code, message: $said}}' ;;
    esac | jq '{reports: [.]}' | ask report
done
