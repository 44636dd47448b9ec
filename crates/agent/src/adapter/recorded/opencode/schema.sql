-- The tables of OpenCode 1.18.33, as its programs expect to find them. The names are its own: a later one changes
-- them step by step, and looks in the last table which steps were taken.

create table project (
    id text primary key, worktree text not null, vcs text, name text, icon_url text, icon_url_override text,
    icon_color text, time_created integer not null, time_updated integer not null, time_initialized integer,
    sandboxes text not null, commands text
);
create table project_directory (
    project_id text not null references project (id) on delete cascade, directory text not null, type text,
    strategy text, time_created integer not null, primary key (project_id, directory)
);
create table workspace (
    id text primary key, type text not null, name text not null default '', branch text, directory text, extra text,
    project_id text not null references project (id) on delete cascade, time_used integer not null
);
create table permission (
    id text primary key, project_id text not null references project (id) on delete cascade, action text not null,
    resource text not null, time_created integer not null, time_updated integer not null
);
create unique index permission_project_action_resource_idx on permission (project_id, action, resource);
create table session (
    id text primary key, project_id text not null references project (id) on delete cascade, workspace_id text,
    parent_id text, slug text not null, directory text not null, path text, title text not null,
    version text not null, share_url text, summary_additions integer, summary_deletions integer,
    summary_files integer, summary_diffs text, metadata text, cost real not null default 0,
    tokens_input integer not null default 0, tokens_output integer not null default 0,
    tokens_reasoning integer not null default 0, tokens_cache_read integer not null default 0,
    tokens_cache_write integer not null default 0, revert text, permission text, agent text, model text,
    time_created integer not null, time_updated integer not null, time_compacting integer, time_archived integer
);
create index session_parent_idx on session (parent_id);
create index session_project_idx on session (project_id);
create index session_workspace_idx on session (workspace_id);
create table message (
    id text primary key, session_id text not null references session (id) on delete cascade,
    time_created integer not null, time_updated integer not null, data text not null
);
create index message_session_time_created_id_idx on message (session_id, time_created, id);
create table part (
    id text primary key, message_id text not null references message (id) on delete cascade, session_id text not null,
    time_created integer not null, time_updated integer not null, data text not null
);
create index part_message_id_id_idx on part (message_id, id);
create index part_session_idx on part (session_id);
create table todo (
    session_id text not null references session (id) on delete cascade, content text not null, status text not null,
    priority text not null, position integer not null, time_created integer not null, time_updated integer not null,
    primary key (session_id, position)
);
create index todo_session_idx on todo (session_id);
create table session_share (
    session_id text primary key references session (id) on delete cascade, id text not null, secret text not null,
    url text not null, time_created integer not null, time_updated integer not null
);
create table session_message (
    id text primary key, session_id text not null references session (id) on delete cascade, type text not null,
    seq integer not null, time_created integer not null, time_updated integer not null, data text not null
);
create unique index session_message_session_seq_idx on session_message (session_id, seq);
create index session_message_session_time_created_id_idx on session_message (session_id, time_created, id);
create index session_message_session_type_seq_idx on session_message (session_id, type, seq);
create index session_message_time_created_idx on session_message (time_created);
create table session_input (
    id text primary key, session_id text not null references session (id) on delete cascade, prompt text not null,
    delivery text not null, admitted_seq integer not null, promoted_seq integer, time_created integer not null
);
create unique index session_input_session_admitted_seq_idx on session_input (session_id, admitted_seq);
create index session_input_session_pending_delivery_seq_idx on session_input (session_id, promoted_seq, delivery, admitted_seq);
create unique index session_input_session_promoted_seq_idx on session_input (session_id, promoted_seq);
create table session_context_epoch (
    session_id text primary key references session (id) on delete cascade, baseline text not null,
    snapshot text not null, baseline_seq integer not null
);
create table event_sequence (aggregate_id text primary key, seq integer not null, owner_id text);
create table event (
    id text primary key, aggregate_id text not null references event_sequence (aggregate_id) on delete cascade,
    seq integer not null, type text not null, data text not null
);
create unique index event_aggregate_seq_idx on event (aggregate_id, seq);
create index event_aggregate_type_seq_idx on event (aggregate_id, type, seq);
create table account (
    id text primary key, email text not null, url text not null, access_token text not null,
    refresh_token text not null, token_expiry integer, time_created integer not null, time_updated integer not null
);
create table account_state (
    id integer primary key, active_account_id text references account (id) on delete set null, active_org_id text
);
create table control_account (
    email text not null, url text not null, access_token text not null, refresh_token text not null,
    token_expiry integer, active integer not null, time_created integer not null, time_updated integer not null,
    primary key (email, url)
);
create table credential (
    id text primary key, integration_id text, label text not null, value text not null, connector_id text,
    method_id text, active integer, time_created integer not null, time_updated integer not null
);
create table data_migration (name text primary key, time_completed integer not null);
create table migration (id text primary key, time_completed integer not null);

insert into migration (id, time_completed) values
    ('20260127222353_familiar_lady_ursula', 0), ('20260211171708_add_project_commands', 0),
    ('20260213144116_wakeful_the_professor', 0), ('20260225215848_workspace', 0),
    ('20260227213759_add_session_workspace_id', 0), ('20260228203230_blue_harpoon', 0),
    ('20260303231226_add_workspace_fields', 0), ('20260309230000_move_org_to_state', 0),
    ('20260312043431_session_message_cursor', 0), ('20260323234822_events', 0),
    ('20260410174513_workspace-name', 0), ('20260413175956_chief_energizer', 0),
    ('20260423070820_add_icon_url_override', 0), ('20260427172553_slow_nightmare', 0),
    ('20260428004200_add_session_path', 0), ('20260501142318_next_venus', 0),
    ('20260504145000_add_sync_owner', 0), ('20260507164347_add_workspace_time', 0),
    ('20260510033149_session_usage', 0), ('20260511000411_data_migration_state', 0),
    ('20260511173437_session-metadata', 0), ('20260601010001_normalize_storage_paths', 0),
    ('20260601202201_amazing_prowler', 0), ('20260602002951_lowly_union_jack', 0),
    ('20260602182828_add_project_directories', 0), ('20260603001617_session_message_projection_indexes', 0),
    ('20260603040000_session_message_projection_order', 0), ('20260603141458_session_input_inbox', 0),
    ('20260603160727_jittery_ezekiel_stane', 0), ('20260604172448_event_sourced_session_input', 0),
    ('20260605003541_add_session_context_snapshot', 0), ('20260605042240_add_context_epoch_agent', 0),
    ('20260611035744_credential', 0), ('20260611192811_lush_chimera', 0),
    ('20260612174303_project_dir_strategy', 0), ('20260622142730_simplify_session_context_epoch', 0),
    ('20260622170816_reset_v2_session_state', 0), ('20260622202450_simplify_session_input', 0);
