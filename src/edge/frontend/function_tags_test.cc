// The tags that are settings: each has its message, and all of them are taken.
#include "edge/frontend/function_tags.h"

#include <gmock/gmock.h>

#include "core/domain/testing/every_field.h"
#include "edge/frontend/limits.h"

namespace lambent::frontend {
namespace {

FunctionSpec with_tags(std::map<std::string, std::string> tags) {
  FunctionSpec spec;
  spec.tags = std::move(tags);
  return spec;
}

TEST(FunctionTags, GiveTheGpuSettings) {
  FunctionSpec spec = with_tags({{"lambent:gpu-memory", "1.5G"},
                                 {"lambent:launch-mode", "model"},
                                 {"lambent:memory-mode", "uvm"},
                                 {"lambent:working-set", "touched"},
                                 {"lambent:checkpoint", "true"},
                                 {"lambent:gpu-runtime", "shared"},
                                 {"lambent:gpu-domain", "vision"},
                                 {"lambent:gpu-share", "40"},
                                 {"lambent:cpu-variant", "true"},
                                 {"lambent:cpu-handler", "app.on_cpu"},
                                 {"lambent:gpu-speedup", "7.5"},
                                 {"lambent:weight", "2.5"},
                                 {"lambent:max-concurrency", "4"},
                                 {"team", "vision"}});
  ASSERT_TRUE(apply_tags(spec).ok());
  EXPECT_EQ(spec.gpu.memory, Bytes::mib(1536));
  EXPECT_EQ(spec.gpu.launch_mode, GpuNeeds::LaunchMode::kModel);
  EXPECT_EQ(spec.gpu.memory_mode, MemoryMode::kUvm);
  EXPECT_EQ(spec.gpu.working_set, WorkingSet::kTouched);
  EXPECT_TRUE(spec.gpu.checkpoint);
  EXPECT_EQ(spec.gpu.runtime, GpuRuntime::kShared);
  EXPECT_EQ(spec.gpu.domain, "vision");
  EXPECT_EQ(spec.gpu.share, 40u);
  EXPECT_EQ(spec.cpu_variant, (CpuVariant{"app.on_cpu", 7.5}));
  EXPECT_EQ(spec.weight, 2.5);
  EXPECT_EQ(spec.max_concurrency, 4u);
}

TEST(FunctionTags, ATagThatIsGoneGivesBackTheDefault) {
  FunctionSpec spec = with_tags({});
  spec.gpu.memory = Bytes::mib(5);
  spec.cpu_variant = CpuVariant{};
  spec.weight = 7;
  ASSERT_TRUE(apply_tags(spec).ok());
  EXPECT_EQ(spec.gpu, GpuNeeds());
  EXPECT_FALSE(spec.cpu_variant.has_value());
  EXPECT_EQ(spec.weight, 1);
}

TEST(FunctionTags, BadOnesAreNamed) {
  const std::map<std::string, std::string> bad = {
      {"lambent:gpu-memory", "much"},
      {"lambent:launch-mode", "fast"},
      {"lambent:memory-mode", "swap"},
      {"lambent:checkpoint", "1"},
      {"lambent:working-set", "all"},
      {"lambent:weight", "nan"},
      {"lambent:weight ", "1"},
      {"lambent:max-concurrency", "0"},
      {"lambent:gpu", "1"},
      {"lambent:max-concurrency ", "1"},
      {"lambent:gpu-runtime", "mine"},
      {"lambent:gpu-share", "101"},
      {"lambent:gpu-share ", "0"},
      {"lambent:cpu-variant", "yes"},
      {"lambent:cpu-handler", "app.on_cpu"},
      {"lambent:gpu-speedup", "7"},
      {"lambent:gpu-speedup ", "nan"},
  };
  for (const auto& [key, value] : bad) {
    FunctionSpec spec = with_tags({{key, value}});
    const auto applied = apply_tags(spec);
    ASSERT_FALSE(applied.ok()) << key;
    EXPECT_NE(applied.error().message.find(key), std::string::npos);
  }
  for (const char* weight : {"0", "1001", "-1", "inf", "1x", ""}) {
    FunctionSpec spec = with_tags({{"lambent:weight", weight}});
    EXPECT_FALSE(apply_tags(spec).ok()) << weight;
  }
}

TEST(FunctionTags, AreBounded) {
  std::map<std::string, std::string> many;
  for (size_t i = 0; i <= limits::kTags; ++i) many[std::to_string(i)] = "";
  FunctionSpec spec = with_tags(many);
  EXPECT_FALSE(apply_tags(spec).ok());
  spec = with_tags({{std::string(129, 'k'), ""}});
  EXPECT_FALSE(apply_tags(spec).ok());
  spec = with_tags({{"k", std::string(257, 'v')}});
  EXPECT_FALSE(apply_tags(spec).ok());
}

TEST(FunctionTags, ABadValueIsToldWhatIsWanted) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"kind", "x", "handler, kernel, workflow, pipeline or http"},
      {"gpu-memory", "much", "an amount of memory such as 512MiB or 2G"},
      {"launch-mode", "x", "compute or model"},
      {"memory-mode", "x", "vmm, uvm or off"},
      {"working-set", "x", "worker, whole or touched"},
      {"checkpoint", "1", "true or false"},
      {"gpu-runtime", "x", "own or shared"},
      {"gpu-share", "101", "a whole number of 1 to 100"},
      {"gpu-share", "0", "a whole number of 1 to 100"},
      {"gpu-share", "-1", "a whole number of 1 to 100"},
      {"gpu-share", "4294967297", "a whole number of 1 to 100"},
      {"gpu-share", "1.5", "a whole number of 1 to 100"},
      {"cpu-variant", "yes", "true or false"},
      {"gpu-speedup", "-1", "a number such as 7.5, or 0"},
      {"gpu-speedup", "nan", "a number such as 7.5, or 0"},
      {"weight", "0.001", "a number of 0.01 to 1000"},
      {"weight", "1001", "a number of 0.01 to 1000"},
      {"weight", "nan", "a number of 0.01 to 1000"},
      {"max-concurrency", "10001", "a whole number of 1 to 10000"},
  };
  for (const auto& [setting, value, wanted] : cases) {
    FunctionSpec spec;
    const std::string tag = "lambent:" + std::string(setting);
    spec.tags = {{tag, value}};
    const auto applied = apply_tags(spec);
    ASSERT_FALSE(applied.ok()) << tag;
    EXPECT_EQ(applied.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(applied.error().message, "tag '" + tag + "' is '" + value + "', not " + wanted);
  }
}

TEST(FunctionTags, AnUnknownOneIsToldWhichThereAre) {
  FunctionSpec spec;
  spec.tags = {{"lambent:gpu", "1"}};
  EXPECT_EQ(
      apply_tags(spec).error().message,
      "there is no setting 'lambent:gpu'; tags that begin with lambent: are kind, "
      "cpus, shared-memory, mounts, network, gpu-memory, gpu-count, launch-mode, memory-mode, "
      "working-set, "
      "checkpoint, "
      "gpu-runtime, "
      "gpu-domain, gpu-share, cpu-variant, cpu-handler, gpu-speedup, http-port, "
      "http-readiness, http-concurrency, url-auth, url-invoke-mode, url-cors, weight, "
      "max-concurrency, "
      "max-queue-time, "
      "min-instances, slo-ms, keep-alive, "
      "warm-up, schedules, async-retries, async-max-age, async-on-success, async-on-failure, "
      "openai-models and layers");
  spec.tags = {{"lambent:", "1"}};
  EXPECT_TRUE(apply_tags(spec).error().message.starts_with("there is no setting 'lambent:';"));
}

TEST(FunctionTags, OfACpuVariantNeedOne) {
  for (const char* tag : {"lambent:cpu-handler", "lambent:gpu-speedup"}) {
    FunctionSpec spec;
    spec.tags = {{tag, "2"}, {"lambent:cpu-variant", "false"}};
    EXPECT_EQ(apply_tags(spec).error().message,
              "the tags lambent:cpu-handler and lambent:gpu-speedup are of a CPU variant: they "
              "need lambent:cpu-variant = true");
  }
}

// The tags that give a function's settings, as a client writes them.
struct WriteTags {
  std::map<std::string, std::string> tags = {};

  template <typename Value>
  void operator()(const FunctionField& field, const Value& value) {
    if (!field.tag.empty()) tags["lambent:" + std::string(field.tag)] = text_of(value);
  }
  void operator()(const FunctionField& field, const std::optional<CpuVariant>& variant) {
    (*this)(field, variant.has_value());
    visit_cpu_variant(*this, *variant);
  }

 private:
  template <typename Value>
  static std::string text_of(const Value& value) {
    if constexpr (HasWords<Value>) {
      return std::string(name_of(value));
    } else if constexpr (std::is_same_v<Value, bool>) {
      return value ? "true" : "false";
    } else if constexpr (std::is_arithmetic_v<Value>) {
      return std::to_string(value);
    } else if constexpr (std::is_same_v<Value, Bytes>) {
      return std::to_string(value.count);
    } else if constexpr (std::is_same_v<Value, std::string>) {
      return value;
    } else if constexpr (std::is_same_v<Value, Mounts> || std::is_same_v<Value, Schedules> ||
                         std::is_same_v<Value, NetworkAccess>) {
      return lambent::text_of(value);
    } else {
      ADD_FAILURE() << "a tag of a type that has no text";
      return "";
    }
  }
};

// Expects that the fields which have a tag are equal.
struct ExpectEqualTags {
  template <typename Value>
  void operator()(const FunctionField& field, const Value& one, const Value& other) {
    if (field.tag.empty()) return;
    EXPECT_EQ(one, other) << field.tag;
  }
};

TEST(FunctionTags, GiveEveryFieldThatHasOne) {
  const FunctionSpec wanted = with_every_field_set();
  WriteTags write;
  visit_fields(write, wanted);
  FunctionSpec spec;
  spec.tags = write.tags;
  const auto applied = apply_tags(spec);
  ASSERT_TRUE(applied.ok()) << to_string(applied.error());
  ExpectEqualTags expect;
  visit_fields(expect, wanted, spec);
}

TEST(FunctionTags, EveryOneThatIsGoneGivesBackTheDefault) {
  FunctionSpec spec = with_every_field_set();
  spec.tags = {};
  ASSERT_TRUE(apply_tags(spec).ok());
  ExpectEqualTags expect;
  const FunctionSpec defaults;
  visit_fields(expect, defaults, std::as_const(spec));
  EXPECT_EQ(spec.handler, with_every_field_set().handler);
}

TEST(FunctionTags, ModelsAreNamedByHttpFunctionsAlone) {
  FunctionSpec spec;
  spec.tags = {{"lambent:kind", "http"}, {"lambent:openai-models", "tiny,org/large"}};
  EXPECT_TRUE(apply_tags(spec).ok());
  spec.tags["lambent:openai-models"] = "a b";
  EXPECT_THAT(apply_tags(spec).error().message, testing::HasSubstr("without commas and spaces"));
  spec.tags = {{"lambent:openai-models", "tiny"}};
  EXPECT_THAT(apply_tags(spec).error().message, testing::HasSubstr("of kind 'http'"));
  spec.tags["lambent:openai-models"] = "";
  EXPECT_TRUE(apply_tags(spec).ok());
}

}  // namespace
}  // namespace lambent::frontend
