-- Migration 13: API tokens.

-- Who may ask a server what. Of a token only the hash is here. One that was revoked stays, so that
-- what it did can be traced to it.
CREATE TABLE @api_token (
    id         text COLLATE "C" NOT NULL PRIMARY KEY,  -- what it is called by; no secret
    name       text   NOT NULL,                        -- what people call it
    role       text   NOT NULL,
    hash       text   NOT NULL,
    settings   text   NOT NULL,                        -- JSON
    by         text   NOT NULL,                        -- who made it
    created_at bigint NOT NULL,
    revoked_at bigint                                  -- null while it lets in
);
