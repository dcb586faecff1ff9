// check_graph PACKAGE NAME=BUNDLE...: checks a kernel function's package as a deployment would,
// with each bundle that its graph names in the folder given for it. Prints its memory; for the
// tests.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "decide/kernel_graph/graph_json.h"
#include "decide/kernel_graph/plan.h"
#include "decide/kernel_graph/validation.h"
#include "gpu/bundle/manifest.h"

namespace {

using namespace lambent;
using namespace lambent::kernel_graph;

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Result<KernelLookup> kernels_of(int count, char** bundles) {
  KernelLookup kernels;
  for (int i = 0; i < count; ++i) {
    const std::string argument = bundles[i];
    const size_t equals = argument.find('=');
    ASSIGN_OR_RETURN(
        const auto manifest,
        bundle::parse_manifest(content(argument.substr(equals + 1) + "/" + bundle::kManifestFile)));
    auto& facts = kernels[argument.substr(0, equals)];
    for (const bundle::Kernel& kernel : manifest.kernels) {
      facts[kernel.name] = {kernel.parameter_sizes, kernel.static_shared_bytes, kernel.max_threads};
    }
  }
  return kernels;
}

Result<MemoryPlan> check(const std::string& package, const KernelLookup& kernels) {
  ASSIGN_OR_RETURN(const KernelGraph graph, parse_graph(content(package + "/graph.json")));
  RETURN_IF_ERROR(validate(graph, kernels));
  FileSizes files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(package)) {
    if (!entry.is_regular_file()) continue;
    files[std::filesystem::relative(entry.path(), package).string()] = entry.file_size();
  }
  RETURN_IF_ERROR(validate_files(graph, files));
  return plan_memory(graph, order_of(graph.steps));
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return 2;
  const auto kernels = kernels_of(count - 2, arguments + 2);
  const auto plan = kernels.ok() ? check(arguments[1], *kernels) : kernels.error();
  if (!plan.ok()) {
    std::fprintf(stderr, "%s\n", to_string(plan.error()).c_str());
    return 1;
  }
  std::printf("{\"constants\": %lu, \"inputs\": %lu, \"outputs\": %lu, \"temporaries\": %lu}\n",
              plan->constants.count, plan->inputs.count, plan->outputs.count,
              plan->temporaries.count);
  return 0;
}
