// Every kind of flag of `lambent serve`: what it does to the config, and what is refused before
// anything starts.
#include "bin/worker_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/testing/testing.h"
#include "node/catalog/database.h"
#include "node/catalog/migrations.h"
#include "node/catalog/postgres_database.h"
#include "node/catalog/shared_schema.h"
#include "node/catalog/testing/postgres_server.h"

namespace lambent {
namespace {

using testing::HasSubstr;

struct Parsed {
  std::optional<int> exit_code;
  WorkerConfig config;
  std::string errors;
};

Parsed parse(std::vector<std::string> words) {
  words.insert(words.begin(), "lambent-worker");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  Parsed parsed;
  testing::internal::CaptureStderr();
  parsed.exit_code = parse_worker_config(static_cast<int>(argv.size()), argv.data(), parsed.config);
  parsed.errors = testing::internal::GetCapturedStderr();
  return parsed;
}

WorkerConfig accepted(const std::vector<std::string>& words) {
  const Parsed parsed = parse(words);
  EXPECT_FALSE(parsed.exit_code.has_value()) << parsed.errors;
  EXPECT_EQ(parsed.errors, "");
  return parsed.config;
}

TEST(WorkerConfig, TakesTheGpusThatAreThereUnlessItIsTold) {
  EXPECT_TRUE(accepted({}).chooses_gpu);
  EXPECT_TRUE(accepted({"--gpu", "auto"}).chooses_gpu);
  for (const char* gpu : {"none", "nvidia", "emulated", "emulated:tiny"}) {
    EXPECT_FALSE(accepted({"--gpu", gpu}).chooses_gpu) << gpu;
  }
  EXPECT_FALSE(accepted({"--time-scale", "10"}).chooses_gpu);
  EXPECT_FALSE(accepted({"--memory-scale", "10"}).chooses_gpu);
}

TEST(WorkerConfig, WithoutFlagsIsOnLoopbackWithAnEmulatedGpu) {
  const WorkerConfig config = accepted({});
  EXPECT_EQ(http::to_string(*config.listen.tcp), "127.0.0.1:8980");
  EXPECT_EQ(config.listen.socket_path, "");
  EXPECT_EQ(config.gpu, GpuKind::kEmulated);
  EXPECT_EQ(config.concurrency, 2u);
  EXPECT_FALSE(config.by_utilisation);
  EXPECT_FALSE(config.host_memory);
  EXPECT_EQ(config.object_memory, Bytes::gib(1));
  EXPECT_EQ(config.object_disk, Bytes::gib(8));
  EXPECT_FALSE(config.object_quota);
  EXPECT_TRUE(config.near_gpu);
}

TEST(WorkerConfig, TakesEveryGroupOfFlags) {
  const WorkerConfig config = accepted({"--gpu",
                                        "emulated:tiny",
                                        "--context-memory",
                                        "64",
                                        "--host-memory",
                                        "3G",
                                        "--concurrency",
                                        "auto",
                                        "--most-concurrency",
                                        "3",
                                        "--utilisation-threshold",
                                        "0.5",
                                        "--utilisation-average",
                                        "1.5",
                                        "--executor-pool-hold",
                                        "2.5",
                                        "--executor-transfers",
                                        "first-come",
                                        "--longest-gpu-run",
                                        "60",
                                        "--no-numa",
                                        "--keep-alive",
                                        "5",
                                        "--drain",
                                        "0",
                                        "--request-head-timeout",
                                        "5",
                                        "--request-body-timeout",
                                        "90",
                                        "--journal",
                                        "j",
                                        "--journal-size",
                                        "7",
                                        "--object-memory",
                                        "2M",
                                        "--object-disk",
                                        "0",
                                        "--object-quota",
                                        "1M",
                                        "--cluster-key",
                                        "key",
                                        "--cluster-node",
                                        "a=http://10.0.0.1:1",
                                        "--cluster-node",
                                        "b=http://10.0.0.2:1",
                                        "--node-name",
                                        "b",
                                        "--cluster-policy",
                                        "two-choices",
                                        "--peer",
                                        "http://10.0.0.2:1",
                                        "--log-format",
                                        "json",
                                        "--state",
                                        "somewhere"});
  EXPECT_EQ(config.gpu_preset, "tiny");
  EXPECT_EQ(config.context_memory, Bytes::mib(64));
  EXPECT_EQ(config.host_memory, Bytes::gib(3));
  ASSERT_TRUE(config.by_utilisation);
  EXPECT_EQ(config.by_utilisation->most, 3u);
  EXPECT_EQ(config.by_utilisation->threshold, 0.5);
  EXPECT_EQ(config.executor_pool_hold, milliseconds(2500));
  EXPECT_FALSE(config.executor_transfers_take_turns);
  EXPECT_EQ(config.longest_gpu_run, seconds(60));
  EXPECT_FALSE(config.near_gpu);
  EXPECT_EQ(config.keep_alive, seconds(5));
  EXPECT_EQ(config.drain_time, Duration());
  EXPECT_EQ(config.listen.head_timeout, seconds(5));
  EXPECT_EQ(config.listen.body_timeout, seconds(90));
  EXPECT_EQ(config.journal_size, Bytes::mib(7));
  EXPECT_EQ(config.object_memory, Bytes::mib(2));
  EXPECT_EQ(config.object_disk, Bytes(0));
  EXPECT_EQ(config.object_quota, Bytes::mib(1));
  EXPECT_EQ(config.cluster_key, "key");
  EXPECT_EQ(config.cluster_nodes,
            (std::vector<std::string>{"a=http://10.0.0.1:1", "b=http://10.0.0.2:1"}));
  EXPECT_EQ(config.node_name, "b");
  EXPECT_EQ(config.cluster_policy, "two-choices");
  EXPECT_EQ(config.peers, std::vector<std::string>{"http://10.0.0.2:1"});
  EXPECT_EQ(config.log_format, LogFormat::kJson);
  EXPECT_TRUE(config.state_folder.starts_with('/')) << "sandboxes are shown paths of this machine";
}

TEST(WorkerConfig, RefusesWithTheFlagToBlame) {
  struct Case {
    std::vector<std::string> words;
    const char* said;
  };
  for (const Case& each : std::vector<Case>{
           {{"--gpu", "quantum"}, "--gpu is auto"},
           {{"--concurrency", "0"}, "--concurrency is 1 to 1024"},
           {{"--concurrency", "1025"}, "--concurrency is 1 to 1024"},
           {{"--concurrency", "-1"}, "--concurrency is 1 to 1024"},
           {{"--concurrency", "2x"}, "--concurrency is 1 to 1024"},
           {{"--most-concurrency", "3"}, "are for --concurrency auto"},
           {{"--host-memory", "much"}, "--host-memory: "},
           {{"--object-memory", "-1G"}, "--object-memory: "},
           {{"--object-disk", "1Q"}, "--object-disk: "},
           {{"--object-quota", "x"}, "--object-quota: "},
           {{"--longest-gpu-run", "nan"}, "--longest-gpu-run"},
           {{"--executor-objects", "nowhere"}, "elastic,shared,host"},
           {{"--listen", "0.0.0.0:8980"}, "--insecure-open-to-network"},
           {{"--tls-certificate", "c"}, "--tls-certificate and --tls-key go together"},
           {{"--tls-key", "k"}, "--tls-certificate and --tls-key go together"},
           {{"--tls-client-ca", "a"}, "--tls-client-ca needs --tls-certificate"},
           {{"--tls-client-required"}, "--tls-client-required needs --tls-client-ca"},
           {{"--listen", "none", "--tls-certificate", "c", "--tls-key", "k"},
            "--listen none leaves none"},
           {{"--grpc", "8981"}, "--grpc is HOST:PORT"},
           {{"--grpc-worker-ca", "a"}, "are for --grpc"},
           {{"--grpc", "127.0.0.1:1", "--listen", "none"}, "--listen none leaves none"},
           {{"--grpc", "127.0.0.1:1", "--tls-certificate", "c", "--tls-key", "k", "--tls-client-ca",
             "a", "--tls-client-required"},
            "--tls-client-required wants one of all"},
           {{"--no-such-flag"}, "--no-such-flag"},
       }) {
    const Parsed parsed = parse(each.words);
    EXPECT_EQ(parsed.exit_code, 2) << each.said;
    EXPECT_THAT(parsed.errors, HasSubstr(each.said));
  }
}

TEST(WorkerConfig, NamesWhoseSharedMemoryWhichTenantMayRegister) {
  EXPECT_TRUE(accepted({}).shared_memory.empty());
  const WorkerConfig config =
      accepted({"--system-shared-memory", "root", "--system-shared-memory", "12=team"});
  EXPECT_THAT(config.shared_memory,
              testing::ElementsAre(frontend::SharedMemoryOwner{.user = 0, .tenant = "default"},
                                   frontend::SharedMemoryOwner{.user = 12, .tenant = "team"}));
  for (const char* wrong : {"", "=team", "root=", "no such user", "-1", "4294967296", "0x0"}) {
    const Parsed refused = parse({"--system-shared-memory=" + std::string(wrong)});
    EXPECT_TRUE(refused.exit_code.value_or(0) != 0) << wrong;
    EXPECT_THAT(refused.errors, HasSubstr("--system-shared-memory")) << wrong;
  }
}

TEST(WorkerConfig, ChecksPoliciesAndSettingsOfTheSchedulerWhereItIsOnlyAsked) {
  EXPECT_EQ(parse({"--check", "--set", "over_run_s=5", "--slice-policy", "fcfs"}).exit_code, 0);
  const struct {
    std::vector<std::string> words;
    const char* said;
  } kRefused[] = {{{"--check", "--set", "nonsense=1"}, "--set nonsense=1: no such setting"},
                  {{"--check", "--set", "over_run_s=x"}, "--set over_run_s=x: not a value for it"},
                  {{"--check", "--policy", "nope"}, "there is no policy 'nope'"},
                  {{"--check", "--slice-policy", "nope"}, "'nope'"}};
  for (const auto& each : kRefused) {
    const Parsed parsed = parse(each.words);
    EXPECT_EQ(parsed.exit_code, 2) << each.said;
    EXPECT_THAT(parsed.errors, HasSubstr(each.said));
  }
}

TEST(WorkerConfig, ChecksThatItKnowsTheStateWhereItIsOnlyAsked) {
  const TemporaryFolder folder;
  EXPECT_EQ(parse({"--check", "--state", folder.path()}).exit_code, 0) << "an empty one";
  {
    auto database = catalog::Database::open(folder / "catalog.db");
    ASSERT_TRUE(catalog::migrate(**database, 12).ok());
  }
  EXPECT_EQ(parse({"--check", "--state", folder.path()}).exit_code, 0) << "an older one";
  {
    auto database = catalog::Database::open(folder / "catalog.db");
    EXPECT_EQ(*catalog::schema_version(**database), 12) << "a check changes nothing";
    ASSERT_TRUE((*database)->run("INSERT INTO schema_version VALUES (1000)").ok());
  }
  const Parsed refused = parse({"--check", "--state", folder.path()});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.errors,
              HasSubstr("catalog.db has schema version 1000, made by a newer Lambent"));
  EXPECT_THAT(refused.errors, HasSubstr("restore a backup from before its upgrade"));
}

TEST(WorkerConfig, ChecksThatItKnowsTheCatalogOfAllNodesWhereItIsOnlyAsked) {
  const TemporaryFolder folder;
  const auto check = [&](const std::string& url) {
    return parse({"--check", "--state", folder.path(), "--catalog", url});
  };
  EXPECT_EQ(check("postgresql://127.0.0.1:1/nothing").exit_code, 0)
      << "a worker starts without one that does not answer";
  catalog::PostgresServer& server = catalog::PostgresServer::shared();
  if (!server.there()) GTEST_SKIP() << "PostgreSQL is not installed";
  const std::string url = server.url("postgres");
  const SystemClock clock;
  const auto database = catalog::open_postgres({.url = url, .lease = "a"}, clock);
  EXPECT_EQ(check(url).exit_code, 0) << "an empty one";
  ASSERT_TRUE(catalog::migrate_shared(**database).ok());
  EXPECT_EQ(check(url).exit_code, 0) << "one of this version, in which a worker holds a lease";
  ASSERT_TRUE((*database)->run("INSERT INTO shared_schema (version) VALUES (1000)").ok());
  const Parsed refused = check(url);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.errors,
              HasSubstr("the shared catalog has schema version 1000, made by a newer Lambent"));
}

TEST(WorkerConfig, TakesTheFormerWordForSharedObjectsWithAWarning) {
  EXPECT_EQ(accepted({"--executor-objects", "shared"}).executor_objects, ExecutorObjects::kShared);
  const Parsed parsed = parse({"--executor-objects", "lent"});
  EXPECT_FALSE(parsed.exit_code.has_value());
  EXPECT_EQ(parsed.config.executor_objects, ExecutorObjects::kShared);
  EXPECT_THAT(parsed.errors, HasSubstr("lent"));
  EXPECT_THAT(parsed.errors, HasSubstr("is called shared now"));
}

TEST(ListenFlags, SayWhereTheApiIs) {
  EXPECT_EQ(http::to_string(*accepted({"--listen", "[::1]:0"}).listen.tcp), "[::1]:0");
  EXPECT_EQ(http::to_string(*accepted({"--listen", "::1:7"}).listen.tcp), "[::1]:7");
  const ListenOptions none = accepted({"--listen", "none", "--run", "/r"}).listen;
  EXPECT_FALSE(none.tcp);
  EXPECT_EQ(none.socket_path, "/r/lambent.sock");
  EXPECT_EQ(none.socket_mode, 0660u);
  const ListenOptions open =
      accepted({"--listen", "0.0.0.0:80", "--insecure-open-to-network", "--host", "gpu-1:80",
                "--socket", "/s", "--socket-mode", "600", "--socket-group", "7"})
          .listen;
  EXPECT_EQ(open.names, std::vector<http::Authority>{*http::parse_authority("gpu-1:80")});
  EXPECT_EQ(open.socket_path, "/s");
  EXPECT_EQ(open.socket_mode, 0600u);
  EXPECT_EQ(open.socket_group, gid_t{7});
  EXPECT_EQ(host_policy(open).listener, open.tcp);
  for (const char* text : {"", "localhost:1", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536",
                           "256.0.0.1:1", "[::1]", "nobody"}) {
    EXPECT_EQ(parse({"--listen", text}).exit_code, 2) << text;
  }
}

TEST(ListenFlags, SayWhichProxiesAreTrusted) {
  http::Peer peer;
  peer.address = "10.1.2.3:9";
  EXPECT_FALSE(accepted({}).listen.trusted_proxies.trusts(peer));
  EXPECT_TRUE(accepted({"--trusted-proxy", "::1", "--trusted-proxy", "10.0.0.0/8"})
                  .listen.trusted_proxies.trusts(peer));
  const Parsed wrong = parse({"--trusted-proxy", "nginx"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.errors, HasSubstr("--trusted-proxy: "));
}

TEST(ListenFlags, SayWithWhatTheApiIsEncrypted) {
  const std::vector<std::string> pair = {"--tls-certificate", "c.pem", "--tls-key", "c.key"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), pair.begin(), pair.end());
    return accepted(more).listen.tls;
  };
  EXPECT_EQ(with({}).server.certificate, "c.pem");
  EXPECT_EQ(with({}).clients, tls::ClientCertificates::kNotAsked);
  const tls::NodeFiles asked = with({"--tls-client-ca", "a.pem"});
  EXPECT_EQ(asked.clients, tls::ClientCertificates::kAsked);
  EXPECT_EQ(asked.peer_authorities, "a.pem");
  EXPECT_EQ(with({"--tls-client-ca", "a.pem", "--tls-client-required"}).clients,
            tls::ClientCertificates::kRequired);
  EXPECT_EQ(with({"--tls-client-ca", "a.pem", "--peer-ca", "p.pem"}).peer_authorities, "p.pem");
  EXPECT_EQ(accepted({"--peer-ca", "p.pem"}).listen.tls.peer_authorities, "p.pem");
}

TEST(ListenFlags, OpenTheNetworkToTlsAndAuthenticationTogetherOnly) {
  ListenOptions options;
  EXPECT_FALSE(may_open_to_network(options));
  options.tls.server.certificate = "c.pem";
  EXPECT_FALSE(may_open_to_network(options));
  options.asks_who_clients_are = true;
  EXPECT_TRUE(may_open_to_network(options));
  options.tls.server.certificate.clear();
  EXPECT_FALSE(may_open_to_network(options));

  const Parsed only_tls =
      parse({"--listen", "0.0.0.0:1", "--tls-certificate", "c", "--tls-key", "k"});
  EXPECT_EQ(only_tls.exit_code, 2);
  EXPECT_THAT(only_tls.errors, HasSubstr("clients are encrypted, but not asked who they are"));
  EXPECT_THAT(parse({"--listen", "0.0.0.0:1"}).errors,
              HasSubstr("clients are neither asked who they are nor encrypted"));
  accepted({"--listen", "0.0.0.0:1", "--tls-certificate", "c", "--tls-key", "k",
            "--insecure-open-to-network"});
}

}  // namespace
}  // namespace lambent
