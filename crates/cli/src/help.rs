//! What stands at the end of the help of each command: how it is used, and how it ends.

/// The commands by what they are for. clap knows no groups, so this is written by hand; a test
/// compares it with the commands.
pub(crate) const TEMPLATE: &str = "\
{about-with-newline}
{usage-heading} {usage}

Run workflows:
  run          Run a program or a graph and wait for its result
  start        Start a program or a graph and leave the work to a worker
  worker       Work on a database until told to stop
  server       Serve the HTTP API of a database until told to stop
  signal       Send a signal to an instance
  cancel       Ask an instance to end
  terminate    End an instance without asking its code, which undoes nothing
  pause        Keep an instance from going on until somebody resumes it
  resume       Let a paused instance go on
  restart      Begin a closed instance again, with the same input, options and tags
  reset        Have an instance go on from an earlier place in its history
  call         Retry, pause, resume or end an activity call
  paused       Decide about calls that are paused, group by group
  dead         Decide about calls that were given up, group by group
  bulk         Look at actions on many calls or instances, and stop them
  gate         Look at what stands before dependencies, shut and open it
  activity     Pause and resume all calls of an activity
  queue        Pause and resume all calls of a queue
  delete       Delete closed instances with everything of theirs
  schedule     Start programs and graphs by the clock

See what happens:
  list         List instances, the newest first
  show         Show an instance and what it waits for
  history      Print the history of an instance
  attempts     Print the attempts of an instance that did not succeed
  watch        Watch an instance, or all that are open, until they end
  export       Write the history of an instance to a file that tests can replay

Write files:
  check        Check a program or a graph without running it
  fmt          Write programs in one layout, in place
  graph        Check graphs
  policy       Evaluate, explain, convert and check retry policies, set them for activities
  token        Tokens that let people and programs into the server
  secrets      Keys for the secrets of graphs

Learn:
  demo         Fulfil orders with a flaky payment service, crash, and go on
  explain      Explain an error code, or list all of them
  completions  Print completions for a shell
  man          Print the manual page, or write all of them into a folder
  help         Print this message or the help of the given subcommand(s)

Options:
{options}{after-help}";

/// Examples, and the exit codes on one line.
macro_rules! examples {
    ($($name:ident: $($line:literal)*;)*) => {
        $(pub(crate) const $name: &str = concat!(
            "Examples:\n", $("  ", $line, "\n",)*
            "\nExit codes: 0 done, 1 something failed, 2 the input has to be changed; \
             all of them: resurgam --help"
        );)*
    };
}

/// The whole program.
pub(crate) const ALL: &str = "\
Examples:
  resurgam demo
  resurgam run order.rap --input '{\"order\": 42}'
  resurgam show order-42

Exit codes:
  0    done
  1    the instance failed or was cancelled, or something unexpected went wrong
  2    the input or the command line is not acceptable
  3    policy convert: the target dialect cannot say everything
  4    the instance is blocked
  130  interrupted; the instance stays and can be continued";

examples! {
    RUN:
        "resurgam run order.rap --input '{\"order\": 42}'"
        "resurgam run order.rap --input '{\"order\": 42}' --id order-42   goes on, if it is there"
        "resurgam run order.rap --input @order.json"
        "jq '{order: .id}' mail.json | resurgam run order.rap --input -"
        "resurgam run graph.json --actions ~/actions --db sqlite:work.db";
    START:
        "resurgam start order.rap --id order-42 --input '{\"order\": 42}'"
        "resurgam start graph.json --queue reports"
        "resurgam start order.rap --each orders.jsonl"
        "jq -c '.[] | {id: .number, input: {order: .number}}' all.json |"
        "  resurgam start order.rap --each -";
    WORKER:
        "resurgam worker --actions actions"
        "RESURGAM_DB=postgres://ada@db/work resurgam worker --actions /srv/actions --metrics 9464";
    SERVER:
        "resurgam server --db sqlite:orders.db"
        "resurgam server --work --actions /srv/actions --listen 8460";
    TOKEN:
        "resurgam token create --role read --name ana"
        "resurgam token list";
    TOKEN_CREATE:
        "resurgam token create --role operate --name ci"
        "resurgam token create --role read --name support --no-payloads --json"
        "resurgam token create --role work --name shop --namespace shop --start";
    TOKEN_LIST:
        "resurgam token list --json";
    TOKEN_REVOKE:
        "resurgam token revoke 4be0643f1d98";
    SIGNAL:
        "resurgam signal order-42 approved"
        "resurgam signal order-42 approved '{\"by\": \"ada\"}'"
        "resurgam signal order-42 approved @approval.json";
    CANCEL:
        "resurgam cancel order-42 --reason 'ordered twice'";
    TERMINATE:
        "resurgam terminate order-42 --reason 'its code is gone'";
    PAUSE:
        "resurgam pause order-42 --reason 'the warehouse moves'"
        "resurgam pause order-42 --calls --by ana"
        "resurgam pause --workflow order --reason 'the warehouse moves'";
    RESUME:
        "resurgam resume order-42"
        "resurgam resume --workflow order --spread 60s";
    RESTART:
        "resurgam restart order-42 --reason 'the data is mended'"
        "resurgam restart --workflow order --started-since 2h --spread 10m";
    RESET:
        "resurgam reset order-42 --last-failure --reason 'the bank is back'"
        "resurgam reset order-42 --before charge"
        "resurgam reset order-42 --to 7 --drop-signals"
        "resurgam reset --workflow order --last-failure --first 1";
    CALL:
        "resurgam call retry order-42 charge#6 --reason 'the bank is back'"
        "resurgam call complete order-42 charge#6 --value '{\"paid\": true}'";
    CALL_RETRY:
        "resurgam call retry order-42 charge#6 --reason 'the bank is back'"
        "resurgam call retry order-42 charge#6 --reset"
        "resurgam call retry --activity charge --failed-since 1h --spread 60s"
        "resurgam call retry --activity charge --first 1   the others only if it succeeds";
    CALL_PAUSE:
        "resurgam call pause order-42 charge#6 --by ana"
        "resurgam call pause --activity charge --dry-run";
    CALL_RESUME:
        "resurgam call resume order-42 charge#6"
        "resurgam call resume order-42 charge#6 --reset"
        "resurgam call resume --activity charge --spread 60s";
    CALL_COMPLETE:
        "resurgam call complete order-42 charge#6 --value '{\"paid\": true}'"
        "resurgam call complete order-42 charge#6 --value @receipt.json";
    CALL_FAIL:
        "resurgam call fail order-42 charge#6 --message 'the card is stolen'"
        "resurgam call fail --failure-type CardStolen --message 'the card is stolen'";
    CALL_SET_POLICY:
        "resurgam call set-policy order-42 charge#6 --policy patient.json"
        "resurgam call set-policy --activity charge --status retrying --policy patient.json";
    BULK:
        "resurgam bulk list"
        "resurgam bulk stop 0192f0c1-7d5a-7000-8000-000000000001";
    BULK_LIST:
        "resurgam bulk list";
    BULK_SHOW:
        "resurgam bulk show 0192f0c1-7d5a-7000-8000-000000000001"
        "resurgam bulk show 0192f0c1-7d5a-7000-8000-000000000001 --wait";
    BULK_STOP:
        "resurgam bulk stop 0192f0c1-7d5a-7000-8000-000000000001 --by ana";
    PAUSED:
        "resurgam paused list"
        "resurgam paused resume --fingerprint 1:5df6c1b35328 --spread 60s --reason 'mail is back'";
    PAUSED_LIST:
        "resurgam paused list"
        "resurgam paused list --activity charge --each --limit 20";
    PAUSED_SHOW:
        "resurgam paused show 1:5df6c1b35328";
    PAUSED_RESUME:
        "resurgam paused resume --fingerprint 1:5df6c1b35328 --spread 60s"
        "resurgam paused resume --activity charge --first 1   try one first";
    PAUSED_FAIL:
        "resurgam paused fail --fingerprint 1:5df6c1b35328 --message 'the bank is gone'";
    DEAD:
        "resurgam dead list"
        "resurgam dead discard --fingerprint 1:5df6c1b35328 --reason 'paid by hand'";
    DEAD_LIST:
        "resurgam dead list"
        "resurgam dead list --since 2h --each"
        "resurgam dead list --state discarded --each --json";
    DEAD_SHOW:
        "resurgam dead show order-42 charge#6"
        "resurgam dead show 1:5df6c1b35328";
    DEAD_REDRIVE:
        "resurgam dead redrive order-42 charge#6"
        "resurgam dead redrive --fingerprint 1:5df6c1b35328 --spread 60s"
        "resurgam dead redrive --activity charge --first 1   try one first"
        "resurgam dead redrive order-42 charge#6 --as-new";
    DEAD_DISCARD:
        "resurgam dead discard order-42 charge#6 --reason 'paid by hand'"
        "resurgam dead discard --fingerprint 1:5df6c1b35328 --dry-run";
    DELETE:
        "resurgam delete order-42"
        "resurgam delete --status completed --older-than 30d --dry-run"
        "resurgam delete --status completed --older-than 30d";
    SCHEDULE:
        "resurgam schedule create nightly report.rap --cron '0 3 * * *' --zone Europe/Berlin"
        "resurgam schedule list";
    SCHEDULE_LIST:
        "resurgam schedule list"
        "resurgam schedule list --utc";
    SCHEDULE_SHOW:
        "resurgam schedule show nightly";
    SCHEDULE_CREATE:
        "resurgam schedule create nightly report.rap --cron '0 3 * * *' --zone Europe/Berlin"
        "resurgam schedule create poll poll.json --every 5m --overlap buffer_one --jitter 30s"
        "resurgam schedule create nightly report.rap --cron '0 4 * * *' --replace";
    SCHEDULE_PAUSE:
        "resurgam schedule pause nightly";
    SCHEDULE_RESUME:
        "resurgam schedule resume nightly";
    SCHEDULE_RUN:
        "resurgam schedule run nightly   prints the id of the instance";
    SCHEDULE_BACKFILL:
        "resurgam schedule backfill nightly --from 2026-11-01 --to 2026-11-07T23:59:59Z"
        "resurgam schedule backfill poll --from 2h";
    SCHEDULE_DELETE:
        "resurgam schedule delete nightly";
    LIST:
        "resurgam list --status blocked"
        "resurgam list --workflow order --since 2h --utc"
        "resurgam list --status failed --activity charge --failure-type BankDown"
        "resurgam list --retrying --json";
    SHOW:
        "resurgam show order-42"
        "resurgam show order-42 --utc";
    HISTORY:
        "resurgam history order-42 --attempts"
        "resurgam history order-42 --utc"
        "resurgam history order-42 --run 1   before it was reset";
    ATTEMPTS:
        "resurgam attempts order-42";
    WATCH:
        "resurgam watch               all that are open"
        "resurgam watch order-42";
    EXPORT:
        "resurgam export order-42 -o tests/histories/order-42.json"
        "resurgam export order-42 --run 1 > first-run.json";
    FMT:
        "resurgam fmt *.rap"
        "resurgam fmt --check *.rap   exit code 1 where a file has another layout";
    CHECK:
        "resurgam check order.rap --actions actions";
    GRAPH:
        "resurgam graph check graph.json";
    SECRETS:
        "export RESURGAM_SECRETS_KEY=$(resurgam secrets new-key)";
    FINGERPRINT:
        "resurgam secrets fingerprint";
    POLICY:
        "resurgam policy explain river"
        "resurgam policy check policy.json --strict"
        "resurgam policy set charge patient.json --reason 'the bank asked us to'";
    POLICY_SET:
        "resurgam policy set charge patient.json --reason 'the bank asked us to'"
        "resurgam policy set charge edda.default --by ana";
    POLICY_UNSET:
        "resurgam policy unset charge --reason 'the bank is back'";
    POLICY_LIST:
        "resurgam policy list"
        "resurgam policy list --json";
    GATE:
        "resurgam gate list"
        "resurgam gate shut stripe --for 2h --reason maintenance";
    GATE_LIST:
        "resurgam gate list"
        "resurgam gate list --json";
    GATE_SHOW:
        "resurgam gate show stripe";
    GATE_SHUT:
        "resurgam gate shut stripe --for 2h --reason maintenance"
        "resurgam gate shut host:api.example.com --by ana";
    GATE_OPEN:
        "resurgam gate open stripe --reason 'it is back, says the vendor'";
    GATE_AUTO:
        "resurgam gate auto stripe";
    GATE_SET:
        "resurgam gate set stripe gate.json --reason 'a smaller contract'"
        "echo '{\"rate\": 50}' | resurgam gate set 'host:*' -";
    GATE_UNSET:
        "resurgam gate unset stripe";
    ACTIVITY:
        "resurgam activity pause charge --reason 'wrong amounts'"
        "resurgam activity resume charge";
    ACTIVITY_PAUSE:
        "resurgam activity pause charge --reason 'wrong amounts'";
    ACTIVITY_RESUME:
        "resurgam activity resume charge";
    QUEUE:
        "resurgam queue pause reports"
        "resurgam queue resume reports";
    QUEUE_PAUSE:
        "resurgam queue pause reports --by ana";
    QUEUE_RESUME:
        "resurgam queue resume reports";
    EVAL:
        "echo '{\"dialect\": \"edda\", \"kind\": \"delay\", \"config\": {}, \"retry_index\": 2}' |"
        "  resurgam policy eval";
    EXPLAIN_POLICY:
        "resurgam policy explain policy.json --attempt-time 2s"
        "resurgam policy explain edda.default --svg > schedule.svg";
    CONVERT:
        "resurgam policy convert policy.json --from cadence --to canonical";
    CHECK_POLICY:
        "resurgam policy check policy.toml"
        "resurgam policy check retry.json --from exosphere --strict";
    WHAT_IF:
        "resurgam policy what-if policy.json --activity charge --db orders.db"
        "resurgam policy what-if edda.default --activity charge --since 30d --db orders.db --svg > load.svg";
    SIMULATE:
        "resurgam policy simulate --rate 1000 --capacity 1500 --outage 1000s"
        "resurgam policy simulate policy.json --rate 50 --capacity 75 --outage 10m --gate gate.json";
    SCHEMA:
        "resurgam policy schema > retry-policy.schema.json";
    EXPLAIN:
        "resurgam explain             list all codes"
        "resurgam explain P2"
        "resurgam explain max_attempts";
    COMPLETIONS:
        "resurgam completions bash > ~/.local/share/bash-completion/completions/resurgam"
        "resurgam completions zsh > ~/.zfunc/_resurgam"
        "resurgam completions fish > ~/.config/fish/completions/resurgam.fish"
        "resurgam completions powershell >> $PROFILE";
    MAN:
        "resurgam man | man -l -"
        "resurgam man --dir ~/.local/share/man/man1";
}
