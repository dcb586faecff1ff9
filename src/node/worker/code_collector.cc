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
  std::vector<std::string> released = uses_.functions.codes().take_released();
  uses_.code.remove_packages(only_revisions_have(released));
  std::vector<std::string> gone = take_unused(std::move(released));
  if (gone.empty()) return;
  if (uses_.environments != nullptr) uses_.environments->release(gone);
  if (uses_.images != nullptr) uses_.images->release(gone);
  uses_.code.remove(std::move(gone));
}

std::vector<std::string> CodeCollector::only_revisions_have(
    const std::vector<std::string>& sha256) {
  std::vector<std::string> folders;
  for (const std::string& one : sha256) {
    if (uses_.functions.codes().contains(one) || !uses_.revisions.codes().contains(one)) continue;
    folders.push_back(archive::code_folder_name(one));
  }
  return folders;
}

std::vector<std::string> CodeCollector::take_unused(std::vector<std::string> released) {
  std::set<std::string> sha256 = std::exchange(unpacked_, {});
  for (std::string& one : released) sha256.insert(std::move(one));
  for (std::string& one : uses_.revisions.codes().take_released()) sha256.insert(std::move(one));
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
  std::set<std::string> present;
  uses_.functions.codes().add_to(present);
  std::set<std::string> all = present;
  uses_.revisions.codes().add_to(all);
  const auto folders_of = [](const std::set<std::string>& digests) {
    std::set<std::string> folders;
    for (const std::string& one : digests) folders.insert(archive::code_folder_name(one));
    return folders;
  };
  std::set<std::string> codes = folders_of(all);
  if (uses_.environments != nullptr) uses_.environments->collect(codes);
  if (uses_.images != nullptr) uses_.images->collect(codes);
  uses_.code.collect(std::move(codes), folders_of(present));
}

}  // namespace lambent::worker
