#include "node/worker/code_collector.h"

#include <utility>

#include "core/archive/zip.h"
#include "core/domain/image_function.h"

namespace lambent::worker {

void CodeCollector::used_by(const FunctionSpec& spec) {
  if (uses_.images == nullptr || !runs_image(spec)) return;
  uses_.images->use(archive::code_folder_name(spec.code_sha256));
}

void CodeCollector::collect() {
  if (uses_.functions.changing()) return;
  std::vector<std::string> gone = take_unused();
  if (gone.empty()) return;
  if (uses_.environments != nullptr) uses_.environments->release(gone);
  if (uses_.images != nullptr) uses_.images->release(gone);
  uses_.code.remove(std::move(gone));
}

std::vector<std::string> CodeCollector::take_unused() {
  std::set<std::string> sha256 = std::exchange(unpacked_, {});
  for (CodeCounts* codes : {&uses_.functions.codes(), &uses_.revisions.codes()}) {
    for (std::string& one : codes->take_released()) sha256.insert(std::move(one));
  }
  std::vector<std::string> gone;
  for (const std::string& one : sha256) {
    if (one.empty()) continue;
    if (uses_.functions.codes().contains(one) || uses_.revisions.codes().contains(one)) continue;
    std::string folder = archive::code_folder_name(one);
    const bool is_built =
        uses_.environments != nullptr && !uses_.environments->progress(folder).empty();
    if (is_built) {
      unpacked_.insert(one);  // it goes with a later change
    } else {
      gone.push_back(std::move(folder));
    }
  }
  return gone;
}

void CodeCollector::collect_all() {
  std::set<std::string> sha256;
  uses_.revisions.codes().add_to(sha256);
  uses_.functions.codes().add_to(sha256);
  std::set<std::string> codes;
  for (const std::string& one : sha256) codes.insert(archive::code_folder_name(one));
  if (uses_.environments != nullptr) uses_.environments->collect(codes);
  if (uses_.images != nullptr) uses_.images->collect(codes);
  uses_.code.collect(std::move(codes));
}

}  // namespace lambent::worker
