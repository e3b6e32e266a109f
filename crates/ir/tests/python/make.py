#!/usr/bin/env python3
"""Writes expressions.json: random expressions with what Python makes of them.

Left out is what JSON has no value for, and what differs by design: integers beyond 64 bits, dicts
with keys that are no texts, and formatting with %.
"""
import ast
import json
import math
import random
import warnings

warnings.filterwarnings("ignore")
random.seed(7)
LEAVES = [
    "0", "1", "2", "3", "7", "-1", "-7", "10", "9007199254740993", "9223372036854775807", "1.5",
    "-0.5", "2.0", "0.0", "1e16", "0.1", "True", "False", "None", '""', '"a"', '"b"', '"héé"',
    "[]", "[1]", "[1, 2, 3]", '["a", None]', "[[1], [2.0]]", "{}", '{"a": 1}', '{"a": [1], "b": {}}',
]
BINARY = ["+", "-", "*", "/", "//", "%"] * 2 + ["==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]


def expression(depth):
    if depth == 0 or random.random() < 0.15:
        return random.choice(LEAVES)
    kind = random.random()
    one, other = expression(depth - 1), expression(depth - 1)
    if kind < 0.55:
        return f"({one} {random.choice(BINARY)} {other})"
    if kind < 0.65:
        return f"({one} {random.choice(BINARY[12:18])} {other} {random.choice(BINARY[12:18])} {expression(1)})"
    if kind < 0.72:
        return f"(not {one})"
    if kind < 0.79:
        return f"(-{one})"
    if kind < 0.9:
        return f"({one})[{other}]"
    if kind < 0.95:
        return f"len({one})"
    return f"[{one}, {other}]"


def fits(value):
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return True
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, list):
        return all(map(fits, value))
    return isinstance(value, dict) and all(map(fits, value.values()))


def is_ours_too(text):
    """True when no part of it is an integer beyond 64 bits, or formats a text."""
    for node in ast.walk(ast.parse(text, mode="eval")):
        if isinstance(node, (ast.BinOp, ast.UnaryOp)):
            try:
                if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
                    if isinstance(eval(ast.unparse(node.left)), str):
                        return False
                value = eval(ast.unparse(node))
            except Exception:
                continue
            if isinstance(value, int) and not fits(value):
                return False
    return True


def main():
    cases = {}
    while len(cases) < 600:
        text = expression(random.randint(1, 3))
        if not is_ours_too(text):
            continue
        try:
            value = eval(text)
        except Exception as error:
            cases[text] = {"raises": type(error).__name__}
            continue
        if fits(value) and len(json.dumps(value)) < 200:
            cases[text] = {"value": value}
    with open(__file__.replace("make.py", "expressions.json"), "w") as file:
        rows = [json.dumps({"expression": text, **case}) for text, case in cases.items()]
        file.write("[\n" + ",\n".join(rows) + "\n]\n")


main()
