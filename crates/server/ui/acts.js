// What can be done to a call, to a run and to groups, in words. Which of them are offered follows from how
// the thing stands; whether one is refused in the end is up to the engine, and its answer is shown.
import { html } from "./vendor/html.js";
import { to } from "./address.js";
import { json } from "./deed.js";
import { Preview } from "./explain.js";
import { called, clock, many, span, word } from "./words.js";

/** @typedef {import("./deed.js").Act} Act */

/** @param {any} call */
const path = (call, action) => `calls/${call.call}/actions/${action}`;

/**
 * What can be done to an open call.
 * @param {any} call @param {string} instance its id
 * @param {number} now
 * @param {any} [policy] what decides about it, where that is known
 * @returns {Act[]}
 */
export function onCall(call, instance, now, policy) {
  const name = called(call);
  const command = (verb, more = "") => `resurgam call ${verb} ${word(instance)} ${word(name)}${more}`;
  const budget = `${call.failures}${call.max_attempts ? ` of ${call.max_attempts}` : ""}`;
  const reset = {
    name: "reset",
    label: "Start the budget anew",
    hint: "failures back to 0, and its time begins again",
    kind: /** @type {const} */ ("check"),
  };
  const due = call.next_due_ms;
  /** @type {Act} */
  const retry = {
    id: "retry",
    title: "Retry now",
    button: `Retry ${name} now`,
    fields: [reset],
    sentence:
      due && due > now
        ? `Attempt ${call.attempt + 1} becomes due now instead of in ${span(due - now)}.`
        : `Attempt ${call.attempt + 1} becomes due now.`,
    changes: due ? [["due", clock(due), clock(now)]] : undefined,
    command: (values) => command("retry", values.reset ? " --reset" : ""),
    request: ({ reset }) => ({ path: path(call, "retry"), body: { reset } }),
    after: "To stop it again, pause the call.",
    inverse: { id: "pause", title: `Pause ${name}` },
  };
  /** @type {Act} */
  const pause = {
    id: "pause",
    title: "Pause",
    button: `Pause ${name}`,
    sentence: call.running
      ? `The attempt that runs goes on. If it fails, ${name} is paused until somebody resumes it.`
      : `${name} makes no attempt until somebody resumes it. Its times stand still.`,
    changes: [
      ["stands", call.running ? "running" : "waiting", "paused"],
      ["failures", budget, budget],
    ],
    command: () => command("pause"),
    request: () => ({ path: path(call, "pause"), body: {} }),
    after: "Resume takes it back.",
    inverse: { id: "resume", title: `Resume ${name}` },
  };
  /** @type {Act} */
  const resume = {
    id: "resume",
    title: "Resume",
    button: `Resume ${name}`,
    fields: [{ ...reset, initial: !!call.paused?.stopped }],
    sentence: `${name} goes on with attempt ${call.attempt + 1}.`,
    changes: [["stands", call.paused ? "paused" : "to be paused", "waiting"]],
    command: (values) => command("resume", values.reset ? " --reset" : ""),
    request: ({ reset }) => ({ path: path(call, "resume"), body: { reset } }),
    after: "Pause holds it back again.",
    inverse: { id: "pause", title: `Pause ${name}` },
  };
  /** @type {Act} */
  const complete = {
    id: "complete",
    title: "Complete",
    button: `Complete ${name}`,
    grave: true,
    sentence: `${name} ends with a value of yours, and its workflow goes on as if the activity had returned it. That cannot be undone.`,
    fields: [
      { name: "value", label: "Value, as JSON", kind: "json", required: true },
      { name: "unchecked", label: "Take it although nobody here can check it", kind: "check" },
    ],
    command: ({ value, unchecked }) =>
      command("complete", ` --value ${word(value || "JSON")}${unchecked ? " --unchecked" : ""}`),
    request: ({ value, unchecked }) => ({ path: path(call, "complete"), body: { value: json(value), unchecked } }),
  };
  /** @type {Act} */
  const fail = {
    id: "fail",
    title: "Fail",
    button: `Fail ${name}`,
    grave: true,
    sentence: `${name} fails for good, and its workflow is told so. That cannot be undone.`,
    fields: [{ name: "message", label: "What the workflow is told", kind: "text", required: true }],
    command: ({ message }) => command("fail", ` --message ${word(message || "MESSAGE")}`),
    request: ({ message }) => ({ path: path(call, "fail"), body: { message } }),
  };
  /** @type {Act[]} */
  const set = !policy
    ? []
    : [
        {
          id: "policy",
          title: "Policy",
          button: `Set the policy of ${name}`,
          sentence:
            call.failures && !call.running && !call.paused
              ? "Its wait is decided again, by this policy and from the last failure. Where this policy would stop, the call ends."
              : "This policy decides from the next failure on.",
          fields: [
            {
              name: "policy",
              label: "Policy, as JSON",
              kind: "json",
              initial: JSON.stringify(policy, null, 1),
              required: true,
            },
          ],
          command: () => command("set-policy", " --policy policy.json"),
          request: ({ policy }) => ({
            path: `calls/${call.call}/policy`,
            method: "PUT",
            body: { policy: json(policy) },
          }),
          after: "Set the one before to take it back.",
          inverse: { id: "policy", title: "Go back to the policy before", values: { policy: JSON.stringify(policy, null, 1) } },
          preview: ({ policy: next }) => html`<${Preview} text=${next} before=${policy} />`,
        },
      ];
  if (call.paused) return [resume, complete, fail, ...set];
  return call.running
    ? [call.pause_asked ? resume : pause, complete, fail, ...set]
    : [retry, pause, complete, fail, ...set];
}

/**
 * What can be done to an instance.
 * @param {any} instance
 * @returns {Act[]}
 */
export function onInstance(instance) {
  const { id, uid, status } = instance;
  const at = (action) => `instances/${uid}/actions/${action}`;
  /** @type {(action: string, act: Omit<Act, "id" | "command" | "request">, flags?: Record<string, string>) => Act} */
  const run = (action, act, flags = {}) => ({
    ...act,
    id: `run-${action}`,
    command: (values) =>
      `resurgam ${action} ${word(id)}${Object.entries(flags)
        .map(([name, flag]) => (values[name] ? ` ${flag}` : ""))
        .join("")}`,
    request: (values) => ({
      path: at(action),
      body: Object.fromEntries(Object.keys(flags).map((name) => [name, values[name]])),
    }),
  });
  const pause = run(
    "pause",
    {
      title: "Pause",
      button: `Pause ${id}`,
      sentence: `${id} takes no turn until somebody resumes it; what is sent to it is kept.`,
      changes: [["status", status, "paused"]],
      fields: [
        { name: "calls", label: "Pause its open calls, too", hint: "otherwise they go on retrying", kind: "check" },
      ],
      after: "Resume takes it back.",
      inverse: { id: "run-resume", title: `Resume ${id}` },
    },
    { calls: "--calls" },
  );
  const resume = run("resume", {
    title: "Resume",
    button: `Resume ${id}`,
    sentence: `${id} goes on where it was.`,
    changes: [["status", status, "running"]],
    after: "Pause holds it again.",
    inverse: { id: "run-pause", title: `Pause ${id}` },
  });
  const cancel = run("cancel", {
    title: "Cancel",
    button: `Cancel ${id}`,
    grave: true,
    sentence: `${id} is asked to end; what its code undoes then is undone. That cannot be taken back.`,
  });
  const terminate = run("terminate", {
    title: "Terminate",
    button: `Terminate ${id}`,
    grave: true,
    sentence: `${id} ends where it stands. Nothing is undone, and its code is not asked.`,
  });
  const restart = run("restart", {
    title: "Restart",
    button: `Restart ${id}`,
    sentence: `${id} begins again, with the same input and a new uid. What this one did stays done.`,
  });
  /** @type {Act} */
  const reset = {
    id: "run-reset",
    title: "Reset",
    button: `Reset ${id}`,
    grave: true,
    sentence: `A next run of ${id} goes on from an earlier place of this history. What came after that place is done again.`,
    fields: [
      {
        name: "where",
        label: "Go on",
        kind: "choice",
        initial: "last_failure",
        choices: [
          ["last_failure", "before the last failure"],
          ["event", "before an event"],
          ["before", "before the last call of an activity"],
        ],
      },
      { name: "what", label: "Number of the event, or name of the activity", kind: "text" },
      { name: "drop_signals", label: "Do not deliver signals again that came after that place", kind: "check" },
    ],
    command: ({ where, what, drop_signals }) =>
      `resurgam reset ${word(id)} ${where === "last_failure" ? "--last-failure" : where === "event" ? `--to ${word(what || "SEQ")}` : `--before ${word(what || "ACTIVITY")}`}${drop_signals ? " --drop-signals" : ""}`,
    request: ({ where, what, drop_signals }) => ({
      path: at("reset"),
      body: {
        to: where === "last_failure" ? where : where === "event" ? { event: Number(what) } : { before: what },
        drop_signals,
      },
    }),
  };
  /** @type {Act} */
  const signal = {
    id: "run-signal",
    title: "Signal",
    button: `Send it to ${id}`,
    logged: true,
    sentence: `${id} gets a signal. It is durable when this is answered.`,
    fields: [
      { name: "name", label: "Name of the signal", kind: "text", required: true },
      { name: "value", label: "Value, as JSON", kind: "json", initial: "null", required: true },
    ],
    command: ({ name, value }) => `resurgam signal ${word(id)} ${word(name || "NAME")} ${word(value || "null")}`,
    request: ({ name, value }) => ({
      path: `instances/${uid}/signals/${encodeURIComponent(name)}`,
      body: { value: json(value) },
    }),
  };
  const isClosed = instance.closed_at_ms !== null;
  if (isClosed) return status === "completed" ? [restart] : [restart, reset];
  // Programs and graphs cannot wait for signals.
  const signals = instance.kind === "code" ? [signal] : [];
  return [status === "paused" ? resume : pause, ...signals, cancel, terminate, reset];
}

/** A time over which many begin. */
const SPREAD = {
  name: "spread",
  label: "Begin over",
  kind: /** @type {const} */ ("choice"),
  initial: "30",
  choices: /** @type {[string, string][]} */ ([
    ["0", "no time: all at once"],
    ["30", "30 s"],
    ["60", "1 m"],
    ["300", "5 m"],
    ["1800", "30 m"],
  ]),
};
const spread = (values) => (values.spread === "0" ? "" : ` --spread ${values.spread}s`);
const over = (values) => (values.spread === "0" ? {} : { spread_ms: Number(values.spread) * 1_000 });

/**
 * One decision for calls that failed in the same way.
 * @param {any} group @param {"paused" | "dead"} kind
 * @returns {Act[]}
 */
export function onGroup(group, kind) {
  const { fingerprint, count, activity } = group;
  const calls = many(count, "call");
  const counts = { count, noun: kind === "paused" ? "call" : "letter" };
  if (kind === "paused") {
    return [
      {
        id: "resume",
        title: "Resume",
        counts,
        button: `Resume ${calls}`,
        fields: [SPREAD],
        sentence: `${calls} of ${activity} go on, with the same idempotency keys; where attempts had run out, failures count from 0.`,
        changes: [["stand", "paused", "waiting"]],
        command: (values) => `resurgam paused resume --fingerprint ${fingerprint}${spread(values)}`,
        request: (values) => ({ path: "paused/actions/resume", body: { fingerprint, ...over(values) } }),
        after: "It is a job; the calls follow one after another.",
        inverse: { href: to("instances", null, { activity, do: "pause" }), title: `Pause calls of ${activity}` },
      },
      {
        id: "fail",
        title: "Fail",
        counts,
        button: `Fail ${calls}`,
        grave: true,
        fields: [{ name: "message", label: "What the workflows are told", kind: "text", required: true }],
        sentence: `${calls} of ${activity} fail for good, and their workflows are told so. That cannot be undone.`,
        command: ({ message }) =>
          `resurgam paused fail --fingerprint ${fingerprint} --message ${word(message || "MESSAGE")}`,
        request: ({ message }) => ({ path: "paused/actions/fail", body: { fingerprint, message } }),
      },
    ];
  }
  return [
    {
      id: "redrive",
      title: "Redrive",
      counts,
      button: `Redrive ${many(count, "letter")}`,
      fields: [
        SPREAD,
        {
          name: "as_new",
          label: "Run each activity by itself",
          hint: "where the run has gone on since; its workflow hears nothing of it",
          kind: "check",
        },
      ],
      sentence: `The runs go on from just before these calls of ${activity}, with a fresh budget.`,
      changes: [["letters", "open", "redriven"]],
      command: (values) =>
        `resurgam dead redrive --fingerprint ${fingerprint}${spread(values)}${values.as_new ? " --as-new" : ""}`,
      request: (values) => ({
        path: "dead-letters/actions/redrive",
        body: { fingerprint, as_new: values.as_new, ...over(values) },
      }),
      after: "It is a job; refused ones are listed with it.",
    },
    {
      id: "discard",
      title: "Discard",
      counts,
      button: `Discard ${many(count, "letter")}`,
      grave: true,
      sentence: `${many(count, "letter")} of ${activity} are decided: nothing follows. They are kept for as long as letters are.`,
      changes: [["letters", "open", "discarded"]],
      command: () => `resurgam dead discard --fingerprint ${fingerprint}`,
      request: () => ({ path: "dead-letters/actions/discard", body: { fingerprint } }),
    },
  ];
}

/**
 * What can be done to a gate by hand.
 * @param {any} gate
 * @returns {Act[]}
 */
export function onGate({ key, standing, by_hand, due }) {
  const lasts = {
    name: "for",
    label: "For",
    kind: /** @type {const} */ ("choice"),
    initial: "0",
    choices: /** @type {[string, string][]} */ ([
      ["0", "until somebody changes it"],
      ["15m", "15 minutes"],
      ["1h", "an hour"],
      ["4h", "4 hours"],
    ]),
  };
  const ms = { 0: undefined, "15m": 900_000, "1h": 3_600_000, "4h": 14_400_000 };
  /** @type {(action: string, title: string, sentence: string, changes: [string, string, string][]) => Act} */
  const act = (action, title, sentence, changes) => ({
    id: `gate-${action}`,
    title,
    sentence,
    changes,
    button: `${title} gate ${key}`,
    inverse: by_hand
      ? { id: by_hand.shut ? "gate-shut" : "gate-open", title: `${by_hand.shut ? "Shut" : "Open"} it again` }
      : { id: "gate-auto", title: "Let it decide again" },
    fields: action === "auto" ? [] : [lasts],
    command: (values) =>
      `resurgam gate ${action} ${word(key)}${values.for && values.for !== "0" ? ` --for ${values.for}` : ""}`,
    request: (values) => ({
      path: `gates/${encodeURIComponent(key)}/actions/${action}`,
      body: { for_ms: ms[values.for] },
    }),
  });
  const shut = act("shut", "Shut", "Nothing begins behind it. Calls wait, and use up no attempt.", [
    ["stands", standing, "shut"],
  ]);
  const open = act(
    "open",
    "Open",
    `It lets everything through, whatever fails${due ? `: ${many(due, "call begins", "calls begin")} at once` : ""}.`,
    [["stands", standing, "open"]],
  );
  const auto = act("auto", "Let it decide", "It decides by itself again, by what fails.", [
    ["stands", by_hand?.shut ? "shut by hand" : "open by hand", "as it decides"],
  ]);
  return by_hand ? [auto, by_hand.shut ? open : shut] : [shut, open];
}

/**
 * Pausing an activity or a queue as a whole.
 * @param {string} kind @param {string} name @param {any} hold
 * @returns {Act[]}
 */
export function onKind(kind, name, hold) {
  const places = { activity: "activities", queue: "queues" };
  /** @type {(action: string, title: string, sentence: string, was: string, then: string, after: string) => Act} */
  const act = (action, title, sentence, was, then, after) => ({
    inverse: hold
      ? { id: "kind-pause", title: `Pause ${kind} ${name}` }
      : { id: "kind-resume", title: `Resume ${kind} ${name}` },
    id: `kind-${action}`,
    title,
    sentence,
    after,
    button: `${title} ${kind} ${name}`,
    changes: [[name, was, then]],
    command: () => `resurgam ${kind} ${action} ${word(name)}`,
    request: () => ({ path: `${places[kind]}/${encodeURIComponent(name)}/actions/${action}`, body: {} }),
  });
  return [
    hold
      ? act(
          "resume",
          "Resume",
          `Calls of ${kind} ${name} begin again, those that are due first.`,
          "paused",
          "flows",
          "Pause holds them again.",
        )
      : act(
          "pause",
          "Pause",
          `No attempt of ${kind} ${name} begins until somebody resumes it. Attempts that run go on, and calls that come later wait, too.`,
          "flows",
          "paused",
          "Resume takes it back.",
        ),
  ];
}

/**
 * What can be done to a schedule.
 * @param {any} schedule
 * @returns {Act[]}
 */
export function onSchedule({ id, paused, workflow }) {
  /** @type {(action: string, title: string, button: string, sentence: string, after?: string) => Act} */
  const act = (action, title, button, sentence, after) => ({
    inverse:
      action === "run"
        ? undefined
        : { id: paused ? "schedule-pause" : "schedule-resume", title: `${paused ? "Pause" : "Resume"} ${id}` },
    id: `schedule-${action}`,
    logged: true,
    title,
    button,
    sentence,
    after,
    command: () => `resurgam schedule ${action} ${word(id)}`,
    request: () => ({ path: `schedules/${encodeURIComponent(id)}/actions/${action}`, body: {} }),
  });
  return [
    paused
      ? act("resume", "Resume", `Resume ${id}`, `${id} fires again, from its next time on.`, "Pause holds it again.")
      : act(
          "pause",
          "Pause",
          `Pause ${id}`,
          `${id} does not fire until somebody resumes it.`,
          "Resume takes it back.",
        ),
    act("run", "Run now", `Run ${id} now`, `An instance of ${workflow} is started now; its times stay as they are.`),
  ];
}

/**
 * Setting and removing the policy that decides about all calls of an activity.
 * @param {string} name @param {any} set what is set now
 * @returns {Act[]}
 */
export function onPolicy(name, set) {
  const path = `activities/${encodeURIComponent(name)}/policy`;
  const before = set ? JSON.stringify(set.policy, null, 1) : "";
  /** @type {Act} */
  const change = {
    id: "kind-policy",
    title: "Set a policy",
    button: `Set the policy of ${name}`,
    sentence: `This policy decides about all calls of ${name} from their next failure on, in place of that of the code.`,
    fields: [{ name: "policy", label: "Policy, as JSON", kind: "json", initial: before, required: true }],
    command: () => `resurgam policy set ${word(name)} policy.json`,
    request: ({ policy }) => ({ path, method: "PUT", body: { policy: json(policy) } }),
    after: "It holds until somebody removes it.",
    inverse: set
      ? { id: "kind-policy", title: "Go back to the policy before", values: { policy: before } }
      : { id: "kind-unset", title: "Remove it" },
    preview: ({ policy }) => (policy ? html`<${Preview} text=${policy} before=${set?.policy ?? json(policy)} />` : ""),
  };
  /** @type {Act} */
  const unset = {
    id: "kind-unset",
    title: "Remove it",
    button: `Remove the policy of ${name}`,
    sentence: `The policy of the code decides about calls of ${name} again, from their next failure on.`,
    command: () => `resurgam policy unset ${word(name)}`,
    request: () => ({ path, method: "DELETE", body: null }),
    inverse: { id: "kind-policy", title: "Set it again", values: { policy: before } },
  };
  return set ? [change, unset] : [change];
}
