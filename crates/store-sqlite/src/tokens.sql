-- Migration 14: API tokens.

-- Who may ask a server what. Of a token only the hash is here. One that was revoked stays, so that
-- what it did can be traced to it.
CREATE TABLE resurgam_api_token (
    id         TEXT    NOT NULL PRIMARY KEY,  -- what it is called by; no secret
    name       TEXT    NOT NULL,              -- what people call it
    role       TEXT    NOT NULL,
    hash       TEXT    NOT NULL,
    settings   TEXT    NOT NULL,              -- JSON
    by         TEXT    NOT NULL,              -- who made it
    created_at INTEGER NOT NULL,
    revoked_at INTEGER                        -- null while it lets in
) STRICT;
