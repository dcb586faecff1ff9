// What nodes and agents send each other: a list of members, a node's report, copies of functions
// and aliases, lists of volumes and of their files, parts of logs, what functions did, and the
// header that says whose request a node forwards. Each becomes a value within its limits, or an
// error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "edge/frontend/activity_merge.h"
#include "edge/frontend/catalog_copy.h"
#include "edge/frontend/cluster_frontend.h"
#include "edge/frontend/log_merge.h"
#include "edge/frontend/volume_copy.h"
#include "node/cluster/member_table.h"
#include "node/cluster/node_credentials.h"
#include "node/cluster/node_report.h"

namespace lambent::frontend {
namespace {

// Lists of what functions do and did, as one.
void merge_activity(const nlohmann::json& body) {
  const std::vector<NodeAnswer> answers = {{"a", body}, {"b", body}};
  const auto page = merge_ended(answers, {}, 5);
  if (page["invocations"].size() > 5) abort();
  if (page.contains("next") && !NodeCursor::parse(page["next"].get<std::string>()).ok()) abort();
  if (merge_live(answers, 5)["invocations"].size() > 5) abort();
  (void)last_ended(answers);
  (void)ended_rows(body);
  (void)began_again(body, 7);
  FunctionFigures figures = read_figures(body);
  add_figures(read_figures(body), figures);
  FiguresPage own{.rows = {figures}, .next = ""};
  if (merge_functions(own, answers).rows.size() > 1) abort();
  (void)merge_function_status({{"functions", {{{"name", "f"}}}}}, answers);
}

}  // namespace
}  // namespace lambent::frontend

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lambent;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto told = frontend::read_members(text); told.ok()) {
    cluster::MemberTable table("self");
    if (table.tell(*told, Instant()).ok() && table.size() > told->members.size() + 1) abort();
  }
  if (const auto report = cluster::parse_report(text); report.ok()) {
    if (report->slots == 0 || report->warm.size() > cluster::kMostWarm) abort();
    if (!cluster::parse_report(cluster::to_json(*report)).ok()) abort();
  }
  const nlohmann::json copy = nlohmann::json::parse(text, nullptr, false);
  frontend::merge_activity(copy);
  (void)frontend::read_copy(copy, kDefaultTenant).ok();
  if (const auto alias = frontend::read_alias_copy(copy, kDefaultTenant); alias.ok()) {
    const auto again = frontend::read_alias_copy(frontend::copy_of(*alias), kDefaultTenant);
    if (!again.ok() || !(*again == *alias)) abort();
  }
  if (const auto list = frontend::read_volume_list(text); list.ok()) {
    const auto again = frontend::read_volume_list(frontend::json_text_of(*list));
    if (!again.ok() || !(*again == *list)) abort();
  }
  if (const auto page = frontend::read_volume_page(text); page.ok()) {
    // Each leads to a file of the copy.
    for (const VolumeFile& file : page->files) {
      if (!validate_volume_path(file.path).ok() || !validate_sha256(file.sha256).ok()) abort();
    }
    const auto again = frontend::read_volume_page(frontend::json_text_of(*page));
    if (!again.ok() || !(*again == *page)) abort();
  }
  if (const auto part = frontend::read_log_part(text); part.ok()) {
    const auto again = frontend::read_log_part(frontend::encode_log_part(*part));
    if (!again.ok() || again->chunk.text != part->chunk.text) abort();
    const auto merged = frontend::merge_logs({*part, *again}, {}, {});
    if (merged.lines.size() > 2 * part->chunk.text.size()) abort();
  }
  if (const auto cursor = frontend::NodeCursor::parse(text); cursor.ok()) {
    if (!frontend::NodeCursor::parse(cursor->text()).ok()) abort();
  }
  const auto credentials = *cluster::NodeCredentials::make("a", std::string(40, 'k'));
  http::Request request;
  request.headers.add("X-Lambent-Node", std::string(text));
  // The key cannot be guessed.
  if (credentials.verify(request).ok()) abort();
  return 0;
}
