// Graphs that come with requests, as the worker keeps them.
#include "node/worker/kernel_graphs.h"

#include "core/crypto/crypto.h"
#include "gpu/bundle/bundle.h"
#include "node/worker/limits.h"
#include "node/worker/testing/worker_testing.h"

namespace lambent::worker {
namespace {

using testing::HasSubstr;

constexpr TenantId kOther(2);

class KernelGraphsTest : public WorkerTest {
 protected:
  // A bundle with one kernel, which no test runs.
  static void write_bundle(const std::string& bundle) {
    std::filesystem::create_directories(bundle);
    bundle::Manifest manifest;
    manifest.name = "k";
    manifest.kernels.push_back(
        {.name = "nothing", .expression = "nothing", .lowered = "", .max_threads = 1024});
    manifest.images.push_back({"host-x86_64", "host-x86_64.so"});
    manifest.sources.emplace_back("src/k.cu");
    std::filesystem::create_directories(bundle + "/src");
    for (const char* file : {"host-x86_64.so", "src/k.cu"}) std::ofstream(bundle + "/" + file);
    manifest.content_sha256 = bundle::content_hash(bundle, manifest).value();
    std::ofstream(bundle + "/manifest.json") << to_json(manifest);
  }
  // A graph that does nothing; `note` makes it another one.
  std::string package(const std::string& note, const std::string& graph = kNothing) {
    const std::string source = folder.path() + "/graph";
    std::filesystem::create_directories(source);
    std::ofstream(source + "/graph.json") << graph;
    write_bundle(source + "/bundles/k");
    std::ofstream(source + "/note") << note;
    return archive::make_zip(source).value();
  }
  void SetUp() override {
    WorkerTest::SetUp();
    launcher.init = [](FakeRuntime&) {};  // executors are no handlers
    graphs_ = std::make_unique<KernelGraphs>(
        KernelGraphs::Dependencies{
            .loop = loop,
            .log = log,
            .catalog = *store,
            .service = *worker,
            .quotas = worker->deployments().quotas(),
            .used_disk =
                [this](TenantId tenant) { return worker->usages_of({tenant}).at(tenant).disk; },
            .is_at_work =
                [this](FunctionId id) {
                  return busy_ == id || worker->status().uses().live.count(id) > 0;
                },
            .longest_gpu_run = seconds(600)},
        KernelGraphLimits{.per_tenant = kPerTenant, .all = kAll});
  }
  void TearDown() override { graphs_.reset(); }
  static std::string digest_of(const std::string& package) {
    return crypto::to_hex(crypto::sha256(package));
  }
  Result<KeptGraph> put_as(const std::string& digest, const std::string& package,
                           TenantId tenant = kDefaultTenant) {
    std::optional<Result<KeptGraph>> answer;
    graphs_->put_graph(tenant, digest, package,
                       [&](Result<KeptGraph> kept) { answer = std::move(kept); });
    EXPECT_TRUE(until([&] { return answer.has_value(); }));
    return answer.value_or(Error{ErrorCode::kUnknown, "no answer"});
  }
  Result<KeptGraph> put(const std::string& package) { return put_as(digest_of(package), package); }
  bool is_kept(const std::string& package, TenantId tenant = kDefaultTenant) {
    for (const KeptGraph& graph : graphs_->list_graphs(tenant)) {
      if (graph.digest == digest_of(package)) return true;
    }
    return false;
  }

  static constexpr size_t kPerTenant = 4, kAll = 6;
  FunctionId busy_;  // said to have something to do
  std::unique_ptr<KernelGraphs> graphs_;
  static constexpr const char* kNothing = R"({"buffers": [], "steps": [
      {"kernel": "nothing", "bundle": "bundles/k", "grid": [1], "block": [1], "arguments": []}]})";
};

TEST_F(KernelGraphsTest, AGraphIsKeptUnderItsDigestForItsTenantAndIsNoFunctionOfTheirs) {
  const std::string zip = package("a");
  EXPECT_EQ(graphs_->find_graph(kDefaultTenant, digest_of(zip)).error().code, ErrorCode::kNotFound);
  const auto kept = put(zip);
  ASSERT_TRUE(kept.ok()) << to_string(kept.error());
  EXPECT_EQ(kept->digest, digest_of(zip));
  EXPECT_EQ(kept->package, Bytes(zip.size()));
  EXPECT_TRUE(graphs_->find_graph(kDefaultTenant, digest_of(zip)).ok());
  EXPECT_FALSE(graphs_->find_graph(kOther, digest_of(zip)).ok());
  EXPECT_TRUE(worker->list_functions(kDefaultTenant, "", 10).empty());
  EXPECT_EQ(worker->function_totals(kDefaultTenant).functions, 0u);
  EXPECT_EQ(worker->function_totals(kDefaultTenant).code, Bytes(zip.size()));
}

TEST_F(KernelGraphsTest, WhatIsNotThePackageOfItsDigestIsRefused) {
  const auto kept = put_as(std::string(64, 'a'), package("a"));
  ASSERT_FALSE(kept.ok());
  EXPECT_EQ(kept.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(kept.error().message, HasSubstr("SHA-256"));
  EXPECT_TRUE(graphs_->list_graphs(kDefaultTenant).empty());
}

TEST_F(KernelGraphsTest, AGraphThatMakesNoSenseIsRefusedWithItsPlaceAndLeavesNothing) {
  const auto kept = put(package("a", R"({"buffers": [], "steps": [{"kernel": "k"}]})"));
  ASSERT_FALSE(kept.ok());
  EXPECT_EQ(kept.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(kept.error().message, HasSubstr("steps[0]"));
  EXPECT_TRUE(graphs_->list_graphs(kDefaultTenant).empty());
  EXPECT_EQ(worker->function_totals(kDefaultTenant).code, Bytes(0));
}

TEST_F(KernelGraphsTest, APackageBeyondTheLimitIsRefusedUnread) {
  const auto kept = put(std::string(limits::kKeptGraphPackage.count + 1, 'x'));
  ASSERT_FALSE(kept.ok());
  EXPECT_EQ(kept.error().code, ErrorCode::kOutOfRange);
}

TEST_F(KernelGraphsTest, WhoSendsOneThatIsArrivingWaitsForIt) {
  const std::string zip = package("a");
  std::vector<FunctionName> names;
  for (int i = 0; i < 3; ++i) {
    graphs_->put_graph(kDefaultTenant, digest_of(zip), zip, [&](Result<KeptGraph> kept) {
      ASSERT_TRUE(kept.ok()) << to_string(kept.error());
      names.push_back(kept->function);
    });
  }
  ASSERT_TRUE(until([&] { return names.size() == 3; }));
  EXPECT_EQ(names[0], names[2]);
  EXPECT_EQ(graphs_->list_graphs(kDefaultTenant).size(), 1u);
}

TEST_F(KernelGraphsTest, TheLeastRecentlyUsedGoesWhereTooManyAreKept) {
  std::vector<std::string> zips;
  for (size_t i = 0; i < kPerTenant; ++i) {
    zips.push_back(package(std::to_string(i)));
    ASSERT_TRUE(put(zips.back()).ok());
  }
  ASSERT_TRUE(graphs_->find_graph(kDefaultTenant, digest_of(zips[0])).ok());
  ASSERT_TRUE(put(package("one more")).ok());
  EXPECT_TRUE(is_kept(zips[0])) << "it was used a moment ago";
  EXPECT_FALSE(is_kept(zips[1]));
  EXPECT_EQ(graphs_->list_graphs(kDefaultTenant).size(), kPerTenant);
  ASSERT_TRUE(put(zips[1]).ok()) << "it comes again";
}

TEST_F(KernelGraphsTest, OneOfATenantMakesRoomAmongItsOwn) {
  const std::string others = package("others");
  ASSERT_TRUE(put_as(digest_of(others), others, kOther).ok());
  for (size_t i = 0; i <= kPerTenant; ++i) {
    ASSERT_TRUE(put(package(std::to_string(i))).ok());
  }
  EXPECT_TRUE(is_kept(others, kOther));
}

TEST_F(KernelGraphsTest, WhereAllTenantsHaveTooManyTheOldestOfAllGoes) {
  const std::string others = package("others");
  ASSERT_TRUE(put_as(digest_of(others), others, kOther).ok());
  for (size_t i = 0; i < kAll; ++i) {
    const std::string zip = package(std::to_string(i));
    ASSERT_TRUE(put_as(digest_of(zip), zip, i % 2 == 0 ? kDefaultTenant : TenantId(3)).ok());
  }
  EXPECT_FALSE(is_kept(others, kOther));
}

TEST_F(KernelGraphsTest, IdsAreUsedAgainSoThatTablesStaySmall) {
  std::set<uint32_t> ids;
  for (int i = 0; i < 20; ++i) {
    const auto kept = put(package(std::to_string(i)));
    ASSERT_TRUE(kept.ok()) << to_string(kept.error());
    ids.insert(worker->find_function(kept->function)->id.value);
  }
  EXPECT_LE(ids.size(), kPerTenant);
  EXPECT_FALSE(ids.contains(deploy("f").id.value));
}

TEST_F(KernelGraphsTest, WithinItsQuotaOfDiskATenantKeepsTheLastOnes) {
  const std::string zip = package("a");
  Tenant tenant{.id = kDefaultTenant, .name = "default"};
  tenant.quotas.disk = Bytes(zip.size() * 2 + 10);
  worker->set_tenant(tenant);
  ASSERT_TRUE(put(zip).ok());
  ASSERT_TRUE(put(package("b")).ok());
  ASSERT_TRUE(put(package("c")).ok());
  EXPECT_FALSE(is_kept(zip));
  EXPECT_TRUE(is_kept(package("c")));
  const auto large = put(package("d") + std::string(zip.size() * 2, 'x'));
  ASSERT_FALSE(large.ok());
  EXPECT_EQ(large.error().code, ErrorCode::kResourceExhausted);
  EXPECT_TRUE(is_kept(package("c"))) << "to let it go would not have made room enough";
}

TEST_F(KernelGraphsTest, OneThatRestsGoesAfterAWhile) {
  const std::string zip = package("a");
  ASSERT_TRUE(put(zip).ok());
  clock.advance(limits::kKeptGraphRest / 2);
  settle();
  EXPECT_TRUE(is_kept(zip));
  clock.advance(limits::kKeptGraphRest);
  settle();
  EXPECT_FALSE(is_kept(zip));
  EXPECT_EQ(worker->function_totals(kDefaultTenant).code, Bytes(0));
}

TEST_F(KernelGraphsTest, OneThatHasSomethingToDoStays) {
  const std::string zip = package("a");
  const auto kept = put(zip);
  ASSERT_TRUE(kept.ok());
  submit(kept->function.name, "{}");  // no executor answers here
  settle();
  const auto refused = graphs_->remove_graph(kDefaultTenant, digest_of(zip));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(is_kept(zip));
}

TEST_F(KernelGraphsTest, RemovedByItsTenantItIsForgotten) {
  const std::string zip = package("a");
  const auto kept = put(zip);
  ASSERT_TRUE(kept.ok());
  ASSERT_TRUE(graphs_->remove_graph(kDefaultTenant, digest_of(zip)).ok());
  EXPECT_FALSE(is_kept(zip));
  EXPECT_FALSE(worker->find_function(kept->function).ok());
  const auto gone = submit(kept->function.name, "{}");
  ASSERT_TRUE(until([&] { return gone->answers == 1; }));
  EXPECT_FALSE(gone->answer->ok());
}

TEST_F(KernelGraphsTest, ATenantThatGoesTakesItsGraphsAlong) {
  const std::string zip = package("a");
  ASSERT_TRUE(put_as(digest_of(zip), zip, kOther).ok());
  graphs_->remove_all(kOther);
  EXPECT_FALSE(is_kept(zip, kOther));
}

TEST_F(KernelGraphsTest, AndOneThatArrivesIsNotKeptForIt) {
  const std::string zip = package("a");
  std::optional<Result<KeptGraph>> answer;
  graphs_->put_graph(kOther, digest_of(zip), zip, [&](Result<KeptGraph> kept) { answer = kept; });
  graphs_->remove_all(kOther);
  ASSERT_TRUE(until([&] { return answer.has_value(); }));
  ASSERT_FALSE(answer->ok());
  EXPECT_EQ(answer->error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(is_kept(zip, kOther));
  EXPECT_EQ(worker->function_totals(kOther).code, Bytes(0));
}

TEST_F(KernelGraphsTest, AnIdWithSomethingLeftToDoIsGivenToNoOther) {
  const auto id_of = [this](const std::string& zip) {
    const auto kept = put_as(digest_of(zip), zip, kOther);
    return kept.ok() ? worker->find_function(kept->function)->id : FunctionId();
  };
  const auto kept = put(package("a"));
  ASSERT_TRUE(kept.ok());
  busy_ = worker->find_function(kept->function)->id;
  graphs_->remove_all(kDefaultTenant);
  EXPECT_NE(id_of(package("b")), busy_);
  const FunctionId ended = std::exchange(busy_, FunctionId());
  EXPECT_EQ(id_of(package("c")), ended);
}

TEST_F(KernelGraphsTest, NorIsThatOfAFunctionThatCouldNotBeRemoved) {
  const std::string zip = package("a");
  const auto kept = put(zip);
  ASSERT_TRUE(kept.ok());
  const FunctionSpec spec = *worker->find_function(kept->function);
  std::optional<Result<FunctionSpec>> changed;
  worker->update_function({.spec = spec, .zip = package("b")},
                          [&](Result<FunctionSpec> now) { changed = now; });
  // It is being changed, so that it stays for now.
  ASSERT_TRUE(graphs_->remove_graph(kDefaultTenant, digest_of(zip)).ok());
  ASSERT_TRUE(worker->find_function(kept->function).ok());
  const std::string others = package("others");
  const auto next = put_as(digest_of(others), others, kOther);
  ASSERT_TRUE(next.ok()) << to_string(next.error());
  EXPECT_NE(worker->find_function(next->function)->id, spec.id);
  ASSERT_TRUE(until([&] { return changed.has_value(); }));
  ASSERT_TRUE(put(package("c")).ok());
  EXPECT_FALSE(worker->find_function(kept->function).ok()) << "it was removed later";
}

TEST_F(KernelGraphsTest, GraphsHaveNoVersions) {
  const auto kept = put(package("a"));
  ASSERT_TRUE(kept.ok());
  std::optional<Result<FunctionSpec>> published;
  worker->versions().publish({.function = kept->function},
                             [&](Result<FunctionSpec> version) { published = version; });
  ASSERT_TRUE(until([&] { return published.has_value(); }));
  ASSERT_FALSE(published->ok());
  EXPECT_EQ(published->error().code, ErrorCode::kFailedPrecondition);
  EXPECT_THAT(published->error().message, HasSubstr("graph"));
}

}  // namespace
}  // namespace lambent::worker
