-- What OpenCode's import makes of an exported session, ?1, in the directory ?2: what is known already stays as it is.
insert or ignore into project (id, worktree, time_created, time_updated, sandboxes)
    select 'global', '/', ?1 ->> '$.info.time.created', ?1 ->> '$.info.time.created', '[]';

insert into session (id, project_id, slug, directory, path, title, version, cost, tokens_input, tokens_output,
    tokens_reasoning, tokens_cache_read, tokens_cache_write, agent, model, time_created, time_updated)
    select info ->> 'id', 'global', info ->> 'slug', ?2, '', info ->> 'title', info ->> 'version', info ->> 'cost',
        info ->> '$.tokens.input', info ->> '$.tokens.output', info ->> '$.tokens.reasoning',
        info ->> '$.tokens.cache.read', info ->> '$.tokens.cache.write', info ->> 'agent', info -> 'model',
        info ->> '$.time.created', info ->> '$.time.updated'
    from (select ?1 -> 'info' as info) where true
    on conflict (id) do update set directory = excluded.directory, path = excluded.path;

insert or ignore into message (id, session_id, time_created, time_updated, data)
    select value ->> '$.info.id', value ->> '$.info.sessionID', value ->> '$.info.time.created',
        value ->> '$.info.time.created', json_remove(value -> 'info', '$.id', '$.sessionID')
    from json_each(?1, '$.messages');

insert or ignore into part (id, message_id, session_id, time_created, time_updated, data)
    select part.value ->> 'id', part.value ->> 'messageID', part.value ->> 'sessionID',
        message.value ->> '$.info.time.created', message.value ->> '$.info.time.created',
        json_remove(part.value, '$.id', '$.sessionID', '$.messageID')
    from json_each(?1, '$.messages') message, json_each(message.value, '$.parts') part;
