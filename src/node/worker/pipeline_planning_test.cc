#include "node/worker/pipeline_planning.h"

#include <gmock/gmock.h>

#include "node/worker/testing/pipeline_testing.h"

namespace lambent::worker {
namespace {

using testing::HasSubstr;
using testing::Not;

SliceShape shape(const char* name, unsigned multiprocessors, Bytes memory) {
  return {name, multiprocessors, memory};
}

// Of a node that has no slices itself; its function has two models that fit two small slices.
class PipelinePlanning : public testing::Test {
 protected:
  PipelinePlanning() {
    spec.id = FunctionId(1);
    spec.name = {kDefaultTenant, "app"};
    spec.kind = FunctionKind::kPipeline;
    spec.timeout = seconds(5);
    here.shared.longest_run = seconds(60);
  }
  void add(std::vector<SliceShape> slices, std::vector<Bytes> gpus = {}) {
    others.slices.push_back(std::move(slices));
    others.gpus.push_back(std::move(gpus));
  }
  PipelineElsewhere look(const std::string& isolation = "slices") const {
    return look_elsewhere(others, here, spec, *two_models(R"({"ms": 100})", isolation));
  }
  Result<PipelineFunctions::Planned> plan(const std::string& isolation = "slices") const {
    return plan_deployed(others, here, spec, *two_models(R"({"ms": 100})", isolation));
  }

  const SliceShape small = shape("1g.10gb", 14, kSmall), tiny = shape("1g.5gb", 14, Bytes::gib(5));
  PipelineSetting here;
  FunctionSpec spec;
  OtherNodes others;
};

TEST_F(PipelinePlanning, PlansOnceForAllNodesThatHaveTheSameSlices) {
  for (int node = 0; node < 1023; ++node) {
    if (node % 2 == 0) add({tiny, small}, {Bytes::gib(80)});
    if (node % 2 == 1) add({small, tiny}, {Bytes::gib(40)});
  }
  const PipelineElsewhere found = look();
  EXPECT_FALSE(found.fits);
  EXPECT_EQ(found.sets, 1u) << "in whatever order they name them, and GPUs are not asked for";
  EXPECT_EQ(found.plans, 1u);
  EXPECT_THAT(plan().error().message, HasSubstr("no other node of the cluster has what it takes"));
  // Another number of the same slices is another set, but no other plan.
  add({tiny, tiny, small});
  EXPECT_EQ(look().tried, 2u);
  EXPECT_EQ(look().plans, 1u);
  add({tiny, small, small});
  EXPECT_TRUE(look().fits);
  EXPECT_EQ(look().plans, 1u);
  EXPECT_TRUE(plan().ok());
}

TEST_F(PipelinePlanning, LooksAtBoundedlyManySetsWithTheLargestFirst) {
  for (size_t node = 0; node < kMostSetsTried + 8; ++node) {
    add({shape(("s" + std::to_string(node)).c_str(), 14, Bytes::mib(1000 + node))});
  }
  add({});  // has nothing to look at
  const PipelineElsewhere found = look();
  EXPECT_FALSE(found.fits);
  EXPECT_EQ(found.sets, kMostSetsTried + 8);
  EXPECT_EQ(found.tried, kMostSetsTried);
  EXPECT_THAT(plan().error().message, HasSubstr("other nodes have 40 different sets of slices, of "
                                                "which the 32 with the most memory were tried"));
  add({small, small});
  EXPECT_TRUE(look().fits);
  EXPECT_EQ(look().tried, 1u) << "the largest comes first, wherever it is";
}

TEST_F(PipelinePlanning, OfWhatSharesAGpuOnlyTheLargestOneCounts) {
  spec.gpu.memory = Bytes::gib(18);
  add({small}, {Bytes::gib(8), Bytes::gib(16)});
  add({tiny}, {Bytes::gib(16)});
  EXPECT_EQ(look("shared").sets, 1u);
  EXPECT_FALSE(look("shared").fits);
  add({}, {Bytes::gib(18)});
  EXPECT_TRUE(look("shared").fits);
  EXPECT_TRUE(look("auto").fits);
  EXPECT_FALSE(look("slices").fits);
}

TEST_F(PipelinePlanning, AWrongPipelineIsRefusedAlsoWhereOthersAreTakenToHoldIt) {
  others.judged = true;
  EXPECT_TRUE(plan("slices").ok()) << "it does not fit here";
  EXPECT_TRUE(plan("auto").ok());
  const auto wrong = plan("shared");
  ASSERT_FALSE(wrong.ok()) << "no GPU of any node can be shared so";
  EXPECT_EQ(wrong.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(wrong.error().message, HasSubstr("how much memory it needs: gpu.memory"));
  spec.gpu.memory = Bytes::gib(18);
  EXPECT_TRUE(plan("shared").ok());
  // That the planner takes none of it is its own fault too.
  auto package = std::make_shared<PipelinePackage>(*two_models());
  package->definition.dag.components.clear();
  EXPECT_EQ(plan_deployed(others, here, spec, *package).error().code, ErrorCode::kInvalidArgument);
  // Nor are other nodes blamed for it.
  others = {};
  add({small, small}, {Bytes::gib(80)});
  spec.gpu.memory = Bytes(0);
  EXPECT_THAT(plan("shared").error().message, Not(HasSubstr("no other node")));
}

// A node that has no slices, or too small ones, is told of a pipeline that another one can serve.
class KeptForOthers : public PipelineHostTest {
 protected:
  std::string shown_after(PipelineFunctions::Planned planned) {
    host->put(spec, two_models(R"({"ms": 100})", "auto"), std::move(planned), "");
    host->isolation_of_next(spec.id);
    return *host->status().describe(spec.id);
  }
};

TEST_F(KeptForOthers, ShowsTheSameAfterARestart) {
  const Slice held = slice(0, "1g.10gb", 14, kSmall);
  OtherNodes others;
  others.slices.push_back({held.shape, held.shape});
  others.gpus.emplace_back();
  for (const bool has_slices : {false, true}) {
    setting.node = "c";
    begin(has_slices ? std::vector{slice(0, "1g.5gb", 14, Bytes::gib(5))} : std::vector<Slice>());
    const auto deployed =
        plan_deployed(others, setting, spec, *two_models(R"({"ms": 100})", "auto"));
    ASSERT_TRUE(deployed.ok()) << deployed.error().message;
    const std::string before = shown_after(*deployed);
    EXPECT_EQ(ends.at(submit(1)).outcome, Outcome::kRejected);
    const std::string refused = ends.at({1, 1}).error->message;
    begin(setting.slices);
    EXPECT_EQ(shown_after(nullptr), before);
    EXPECT_EQ(ends.at(submit(2)).outcome, Outcome::kRejected);
    EXPECT_EQ(ends.at({1, 2}).error->message, refused);
    EXPECT_EQ(nlohmann::json::parse(before)["node"], "c");
    EXPECT_EQ(nlohmann::json::parse(before).contains("slo"), !has_slices)
        << "where the shapes of its profile can plan it";
  }
}

}  // namespace
}  // namespace lambent::worker
