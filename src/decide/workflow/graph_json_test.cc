#include "decide/workflow/graph_json.h"

#include "decide/workflow/limits.h"
#include "decide/workflow/testing/testing.h"

namespace lambent::workflow {
namespace {

using testing::HasSubstr;

// It is refused, and the message says exactly this.
void expect_refused(const std::string& text, const std::string& message) {
  const auto workflow = parse_workflow(text);
  ASSERT_FALSE(workflow.ok()) << text;
  EXPECT_EQ(workflow.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(workflow.error().message, message);
}
void expect_components_refused(const std::string& components, const std::string& message) {
  expect_refused(workflow_text(components), message);
}

constexpr const char* kTraffic = R"(
  {"name": "detect", "function": "detector", "input": {"image": "$input.image", "least": 0.5}},
  {"name": "faces", "function": "face", "for_each": "$detect.boxes",
   "input": {"box": "$item", "number": "$index", "price": "$$5"},
   "when": {"ref": "$item.score", "op": ">=", "value": 0.9}, "idempotent": true},
  {"name": "audit", "function": "log", "after": ["faces"], "when": {"not": "$input.quiet"},
   "inline": true})";

TEST(GraphJson, SaysWhatTheAuthorWrote) {
  const auto workflow = workflow_of(kTraffic, R"({"faces": "$faces", "all": true})");
  ASSERT_EQ(workflow->components.size(), 3u);
  const Component& detect = workflow->components[0];
  EXPECT_EQ(detect.function, "detector");
  EXPECT_TRUE(detect.needs.empty());
  const Component& faces = workflow->components[1];
  EXPECT_EQ(faces.needs, std::vector<uint32_t>{0});
  EXPECT_TRUE(faces.idempotent);
  EXPECT_TRUE(faces.when->per_element());
  EXPECT_EQ(faces.when->comparison, Comparison::kAtLeast);
  const Component& audit = workflow->components[2];
  EXPECT_EQ(audit.needs, std::vector<uint32_t>{1});
  EXPECT_TRUE(audit.by_value);
  EXPECT_EQ(audit.when->comparison, Comparison::kNotTrue);
  // Without a word about its input it is the workflow's.
  EXPECT_EQ(std::get<Reference>(audit.input.content), Reference());
}

TEST(GraphJson, ComesBackFromItsOwnText) {
  const auto workflow = workflow_of(kTraffic, R"([1, "$$x", {"a": ["$faces[0][\"b.c\"].d"]}])");
  const std::string text = to_json(*workflow);
  const auto again = parse_workflow(text);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(*again, *workflow);
  EXPECT_EQ(to_json(*again), text);
}

TEST(GraphJson, TheLastComponentIsTheOutputUnlessOneIsSaid) {
  const auto workflow = workflow_of(kTraffic);
  EXPECT_EQ(std::get<Reference>(workflow->output.content),
            (Reference{.root = Reference::Root::kComponent, .component = 2}));
}

TEST(GraphJson, UnknownWordsAreRefusedWithTheirPlace) {
  expect_refused("[]", "the workflow: an object is expected");
  expect_refused("{", "the workflow is no JSON, at byte 2");
  expect_refused("{}", "the workflow: 'components' is missing");
  expect_refused(R"({"components": []})",
                 "components: a list of at least one component is expected");
  expect_refused(R"({"component": []})",
                 "the workflow: there is no 'component' here; did you mean 'components'?");
  expect_components_refused(R"({"name": "a", "function": "f", "foreach": []})",
                            "components[0]: there is no 'foreach' here; did you mean 'for_each'?");
  expect_components_refused(R"({"name": "a"})", "components[0]: 'function' is missing");
  expect_components_refused(R"({"name": "a", "function": "f", "idempotent": 1})",
                            "components[0].idempotent: true or false is expected");
  expect_components_refused(
      R"({"name": "a b", "function": "f"})",
      "components[0].name: 1 to 64 letters, digits, '-' and '_' are expected");
  expect_components_refused(R"({"name": "item", "function": "f"})",
                            "components[0].name: 'item' has a meaning of its own in references");
  expect_components_refused(R"({"name": "a", "function": "f"}, {"name": "a", "function": "g"})",
                            "components[1].name: there are two components 'a'");
  expect_components_refused(R"({"name": "a", "function": "f", "input": {"x": 1, "x": 2}})",
                            "components[0].input: an object has 'x' twice");
  expect_components_refused(
      R"({"name": "a", "function": "f", "when": {"ref": "$input", "op": "~", "value": 1}})",
      "components[0].when.op: one of ==, !=, <, <=, > and >= is expected");
  expect_components_refused(R"({"name": "a", "function": "f", "when": {"ref": "$input"}})",
                            "components[0].when: 'op' is missing");
  expect_components_refused(R"({"name": "a", "function": "f", "when": true})",
                            "components[0].when: a reference such as \"$input.x\" is expected");
  expect_components_refused(R"({"name": "a", "function": "f", "after": ["b"]})",
                            "components[0].after[0]: the name of a component is expected");
}

TEST(GraphJson, ReferencesToNothingAreRefusedWithTheirPlace) {
  expect_components_refused(
      R"({"name": "detect", "function": "f"},
         {"name": "b", "function": "f", "input": {"x": [0, "$detct.y"]}})",
      "components[1].input.x[1]: '$detct.y': there is no component 'detct'; did you mean "
      "'$detect'?");
  expect_components_refused(R"({"name": "a", "function": "f", "input": {"x": "$item"}})",
                            "components[0]: $item and $index mean nothing without a for_each");
  expect_components_refused(
      R"({"name": "a", "function": "f", "for_each": "$item"})",
      "components[0].for_each: $item and $index mean nothing before there are elements");
  expect_refused(workflow_text(R"({"name": "a", "function": "f"})", R"("$index")"),
                 "output: $item and $index mean nothing in the output");
}

TEST(GraphJson, CirclesAreToldFromEndToEnd) {
  expect_components_refused(R"({"name": "a", "function": "f", "input": "$a.x"})",
                            "components[0]: 'a' needs 'a': nothing of that could begin");
  expect_components_refused(
      R"({"name": "a", "function": "f", "input": "$c"},
         {"name": "b", "function": "f", "when": "$a"},
         {"name": "c", "function": "f", "after": ["b"]})",
      "components[0]: 'a' needs 'c' needs 'b' needs 'a': nothing of that could begin");
}

TEST(GraphJson, LimitsAreReached) {
  std::string many;
  for (size_t i = 0; i <= limits::kComponents; ++i) {
    many += (i == 0 ? "" : ",") + std::string(R"({"name": "c)") + std::to_string(i) +
            R"(", "function": "f"})";
  }
  expect_components_refused(many, "components: has 257 entries; at most 256 are taken");
  const std::string deep(limits::kGraphDepth, '[');
  expect_components_refused(
      R"({"name": "a", "function": "f", "input": )" + deep + std::string(deep.size(), ']') + "}",
      "components[0].input" +
          [] {
            std::string places;
            for (size_t i = 0; i + 4 < limits::kGraphDepth; ++i) places += "[0]";
            return places;
          }() +
          ": it is nested more than 32 deep");
  const auto large = parse_workflow(std::string(limits::kGraphJson.count + 1, ' '));
  EXPECT_THAT(large.error().message, HasSubstr("is larger than"));
}

}  // namespace
}  // namespace lambent::workflow
