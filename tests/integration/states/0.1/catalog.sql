BEGIN TRANSACTION;
CREATE TABLE async_invocations (
  sequence        INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant          INTEGER NOT NULL,
  id              BLOB    NOT NULL CHECK (length(id) = 16),
  function        INTEGER REFERENCES functions (id) ON DELETE SET NULL,
  function_name   TEXT    NOT NULL,
  payload         BLOB    NOT NULL,
  content_type    TEXT    NOT NULL,
  client_context  TEXT    NOT NULL,
  trace_id        TEXT    NOT NULL,
  idempotency_key TEXT    NOT NULL,
  submitted_at_ns INTEGER NOT NULL,
  attempts        INTEGER NOT NULL,
  state           TEXT    NOT NULL CHECK (state IN ('queued', 'running', 'done')), needs TEXT NOT NULL DEFAULT '',
  UNIQUE (tenant, id)
);
INSERT INTO "async_invocations" VALUES(1,1,X'80470BEA8FED4A2E8ACE8FF1F0A673E0',2,'count',X'','','','','1/count/order-41/9/496034533173811558/2284607938175750967',1795988829346471394,1,'done','');
INSERT INTO "async_invocations" VALUES(2,1,X'3683CCB7F825498CA19E1A009D754C1F',4,'broken',X'','','','','',1795988829355486110,1,'done','');
INSERT INTO "async_invocations" VALUES(3,1,X'B8D2E457CE7444E7BD02F50E4A30EA2A',3,'slow',X'7B226E223A20307D','','','','',1795988829494288129,1,'running','');
INSERT INTO "async_invocations" VALUES(4,1,X'B0F2BC0000224BAAB96791C0B3EE5DDA',3,'slow',X'7B226E223A20317D','','','','',1795988829511147347,0,'queued','');
INSERT INTO "async_invocations" VALUES(5,1,X'CC4438D8E0B847F8ABA1ACCF4C0F8B7D',3,'slow',X'7B226E223A20327D','','','','',1795988829516104972,0,'queued','');
CREATE TABLE async_results (
  tenant          INTEGER NOT NULL,
  id              BLOB    NOT NULL,
  outcome         TEXT    NOT NULL,
  payload         BLOB    NOT NULL,
  error_type      TEXT    NOT NULL,
  error_code      TEXT,
  error_message   TEXT,
  start           TEXT    NOT NULL,
  queue_ns        INTEGER NOT NULL,
  sandbox_ns      INTEGER NOT NULL,
  init_ns         INTEGER NOT NULL,
  run_ns          INTEGER NOT NULL,
  device          INTEGER NOT NULL,
  device_memory_peak_bytes INTEGER NOT NULL,
  host_memory_peak_bytes   INTEGER NOT NULL,
  log_tail        BLOB    NOT NULL,
  revision        INTEGER NOT NULL,
  expires_at_ns   INTEGER NOT NULL, memory_ns INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (tenant, id),
  FOREIGN KEY (tenant, id) REFERENCES async_invocations (tenant, id) ON DELETE CASCADE
);
INSERT INTO "async_results" VALUES(1,X'80470BEA8FED4A2E8ACE8FF1F0A673E0','succeeded',X'7B226E223A2034322C20227374616765223A202270726F64227D','',NULL,NULL,'warm',0,0,0,1822645,0,0,0,X'5354415254205265717565737449643A2038303437306265612D386665642D346132652D386163652D3866663166306136373365302056657273696F6E3A20244C41544553540A454E44205265717565737449643A2038303437306265612D386665642D346132652D386163652D3866663166306136373365300A5245504F5254205265717565737449643A2038303437306265612D386665642D346132652D386163652D386666316630613637336530094475726174696F6E3A20312E3738206D730942696C6C6564204475726174696F6E3A2032206D73094D656D6F72792053697A653A20313932204D420A',1,1796075229355858189,0);
INSERT INTO "async_results" VALUES(1,X'3683CCB7F825498CA19E1A009D754C1F','function_error',X'7B226572726F724D657373616765223A20226E6F206C75636B222C20226572726F7254797065223A202256616C75654572726F72222C2022737461636B5472616365223A205B22202046696C65205C222F7661722F7461736B2F6170702E70795C222C206C696E6520332C20696E2068616E646C65725C6E2020202072616973652056616C75654572726F72285C226E6F206C75636B5C2229225D7D','ValueError',NULL,NULL,'cold',0,8550476,79093220,20475010,0,0,0,X'5354415254205265717565737449643A2033363833636362372D663832352D343938632D613139652D3161303039643735346331662056657273696F6E3A20244C41544553540A5B4552524F525D2056616C75654572726F723A206E6F206C75636B0A202046696C6520222F7661722F7461736B2F6170702E7079222C206C696E6520332C20696E2068616E646C65720A2020202072616973652056616C75654572726F7228226E6F206C75636B22290A454E44205265717565737449643A2033363833636362372D663832352D343938632D613139652D3161303039643735346331660A5245504F5254205265717565737449643A2033363833636362372D663832352D343938632D613139652D316130303964373534633166094475726174696F6E3A2032302E3137206D730942696C6C6564204475726174696F6E3A203231206D73094D656D6F72792053697A653A20323536204D420A',1,1796075229474211071,0);
CREATE TABLE devices (
  uuid                TEXT    PRIMARY KEY,
  drained_by_operator INTEGER NOT NULL,
  operators_reason    TEXT    NOT NULL,
  sickness            TEXT    NOT NULL,
  errors              INTEGER NOT NULL,
  errors_accepted     INTEGER NOT NULL,
  repair_accepted     INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE function_statistics (
  tenant               INTEGER NOT NULL,
  function             INTEGER NOT NULL,
  mean_execution_ns    INTEGER NOT NULL,
  mean_interarrival_ns INTEGER NOT NULL,
  mean_cold_start_ns   INTEGER NOT NULL,
  executions           INTEGER NOT NULL,
  arrivals             INTEGER NOT NULL,
  cold_starts          INTEGER NOT NULL, mean_host_execution_ns INTEGER NOT NULL DEFAULT 0, mean_host_cold_start_ns INTEGER NOT NULL DEFAULT 0, host_executions INTEGER NOT NULL DEFAULT 0, host_cold_starts INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (tenant, function),
  FOREIGN KEY (tenant, function) REFERENCES functions (tenant, id) ON DELETE CASCADE
) WITHOUT ROWID;
INSERT INTO "function_statistics" VALUES(1,2,1996657,19321235,95406925,9,8,1,0,0,0,0);
INSERT INTO "function_statistics" VALUES(1,3,0,5346589,173207897,0,2,1,0,0,0,0);
INSERT INTO "function_statistics" VALUES(1,4,20165511,0,87643696,1,0,1,0,0,0,0);
INSERT INTO "function_statistics" VALUES(1,5,0,0,0,0,0,0,0,0,0,0);
CREATE TABLE function_variables (
  tenant   INTEGER NOT NULL,
  function INTEGER NOT NULL,
  kind     TEXT    NOT NULL CHECK (kind IN ('environment', 'tag')),
  key      TEXT    NOT NULL,
  value    TEXT    NOT NULL,
  PRIMARY KEY (tenant, function, kind, key),
  FOREIGN KEY (tenant, function) REFERENCES functions (tenant, id) ON DELETE CASCADE
) WITHOUT ROWID;
INSERT INTO "function_variables" VALUES(1,2,'environment','STAGE','prod');
INSERT INTO "function_variables" VALUES(1,2,'tag','lambent:max-concurrency','7');
INSERT INTO "function_variables" VALUES(1,2,'tag','lambent:weight','2.5');
INSERT INTO "function_variables" VALUES(1,2,'tag','team','vision');
INSERT INTO "function_variables" VALUES(1,3,'tag','lambent:max-concurrency','1');
INSERT INTO "function_variables" VALUES(1,5,'tag','lambent:kind','workflow');
CREATE TABLE functions (
  id              INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant          INTEGER NOT NULL,
  name            TEXT    NOT NULL,
  revision        INTEGER NOT NULL,
  kind            TEXT    NOT NULL,
  runtime         TEXT    NOT NULL,
  runtime_name    TEXT    NOT NULL,
  handler         TEXT    NOT NULL,
  description     TEXT    NOT NULL,
  role            TEXT    NOT NULL,
  timeout_ns      INTEGER NOT NULL,
  memory_bytes    INTEGER NOT NULL,
  gpu_memory_bytes INTEGER NOT NULL,
  gpu_launch_mode TEXT    NOT NULL,
  weight          REAL    NOT NULL,
  max_concurrency INTEGER NOT NULL,
  code_sha256     TEXT    NOT NULL,
  code_bytes      INTEGER NOT NULL,
  last_modified_ns INTEGER NOT NULL, gpu_memory_mode TEXT NOT NULL DEFAULT 'vmm', gpu_checkpoint INTEGER NOT NULL DEFAULT 0, gpu_runtime TEXT NOT NULL DEFAULT 'own', gpu_domain TEXT NOT NULL DEFAULT '', gpu_share INTEGER NOT NULL DEFAULT 100, cpu_variant INTEGER NOT NULL DEFAULT 0, cpu_handler TEXT NOT NULL DEFAULT '', gpu_speedup REAL NOT NULL DEFAULT 0, gpu_working_set TEXT NOT NULL DEFAULT 'worker',
  UNIQUE (tenant, name),
  UNIQUE (tenant, id)
);
INSERT INTO "functions" VALUES(2,1,'count',1,'handler','python','python3.11','app.handler','','arn:aws:iam::0:role/any',45000000000,201326592,0,'compute',2.5,7,'jgkXIdzTnEbEStZH6nD152NaxJRTJs4dxIYRovRhAfQ=',208,1795988829097881914,'vmm',0,'own','',100,0,'',0.0,'worker');
INSERT INTO "functions" VALUES(3,1,'slow',1,'handler','python','python3.11','app.handler','','arn:aws:iam::0:role/any',900000000000,268435456,0,'compute',1.0,1,'0cMk0TX1HJUHbdHOJBecfXymVD8/VDGfQhEaCUdVnUg=',255,1795988829130445494,'vmm',0,'own','',100,0,'',0.0,'worker');
INSERT INTO "functions" VALUES(4,1,'broken',1,'handler','python','python3.11','app.handler','','arn:aws:iam::0:role/any',30000000000,268435456,0,'compute',1.0,1000,'/8wSAFXOncLrX4t3vjOsLHcuGunRwzj/mFunTmVysNs=',172,1795988829158081276,'vmm',0,'own','',100,0,'',0.0,'worker');
INSERT INTO "functions" VALUES(5,1,'flow',1,'workflow','provided','provided.al2023','workflow.json','','arn:aws:iam::0:role/any',30000000000,268435456,0,'compute',1.0,1000,'LULHqH1YMbS7SihdVPaG+XJ3UV3MBgjUIja/PIyJ0j4=',213,1795988829193843650,'vmm',0,'own','',100,0,'',0.0,'worker');
CREATE TABLE pipeline_profiles (
  tenant   INTEGER NOT NULL,
  function INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  profile  TEXT    NOT NULL,
  PRIMARY KEY (tenant, function),
  FOREIGN KEY (tenant, function) REFERENCES functions (tenant, id) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE TABLE schema_version (version INTEGER PRIMARY KEY) WITHOUT ROWID;
INSERT INTO "schema_version" VALUES(1);
INSERT INTO "schema_version" VALUES(2);
INSERT INTO "schema_version" VALUES(3);
INSERT INTO "schema_version" VALUES(4);
INSERT INTO "schema_version" VALUES(5);
INSERT INTO "schema_version" VALUES(6);
INSERT INTO "schema_version" VALUES(7);
INSERT INTO "schema_version" VALUES(8);
INSERT INTO "schema_version" VALUES(9);
INSERT INTO "schema_version" VALUES(10);
INSERT INTO "schema_version" VALUES(11);
INSERT INTO "schema_version" VALUES(12);
CREATE INDEX async_pending ON async_invocations (sequence) WHERE state <> 'done';
CREATE INDEX async_function ON async_invocations (function) WHERE function IS NOT NULL;
CREATE INDEX async_expiry ON async_results (expires_at_ns);
CREATE INDEX async_repeats ON async_invocations (tenant, idempotency_key)
  WHERE idempotency_key <> '';
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('functions',5);
INSERT INTO "sqlite_sequence" VALUES('async_invocations',5);
COMMIT;
