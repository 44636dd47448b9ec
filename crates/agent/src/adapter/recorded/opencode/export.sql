-- What OpenCode exports of the session ?1, as far as a recorded one has it.
select json_object(
    'info', json_object('id', s.id, 'slug', s.slug, 'projectID', s.project_id, 'directory', s.directory, 'path', s.path,
        'title', s.title, 'agent', s.agent, 'model', json(s.model), 'version', s.version,
        'cost', iif(s.cost = round(s.cost), cast(s.cost as integer), s.cost),
        'tokens', json_object('input', s.tokens_input, 'output', s.tokens_output, 'reasoning', s.tokens_reasoning,
            'cache', json_object('read', s.tokens_cache_read, 'write', s.tokens_cache_write)),
        'time', json_object('created', s.time_created, 'updated', s.time_updated)),
    'messages', json((
        select json_group_array(json_object(
            'info', json_set(m.data, '$.id', m.id, '$.sessionID', m.session_id),
            'parts', json((
                select json_group_array(json_set(p.data, '$.id', p.id, '$.sessionID', p.session_id,
                    '$.messageID', p.message_id) order by p.id)
                from part p where p.message_id = m.id))
            ) order by m.time_created, m.id)
        from message m where m.session_id = s.id)))
from session s where s.id = ?1
