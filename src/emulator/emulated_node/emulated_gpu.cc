// emulated-gpu: makes and shows the node file of emulated devices.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "emulator/emulated_node/emulated_gpu.h"

using namespace lambent::emulated_node;

namespace {

constexpr char kUsage[] =
    "emulated-gpu create --node FILE --config PRESET|FILE.toml [--devices N] [--time-scale X]\n"
    "                    [--memory-scale X]\n"
    "emulated-gpu show --node FILE [--json]\n"
    "emulated-gpu mig --node FILE [--device K] on | off | list | layouts | create PROFILE[@START] "
    "|\n"
    "                 destroy UUID\n"
    "emulated-gpu mps --node FILE on | off\n"
    "emulated-gpu fault --node FILE 'lose device 0' (any fault of a plan; 'none' forgets the "
    "plan)\n"
    "emulated-gpu reset --node FILE [--device K]\n"
    "\n"
    "Example: emulated-gpu create --node /tmp/gpu.node --config v100-16gb --time-scale 10\n"
    "         EMULATED_CUDA_NODE=/tmp/gpu.node LD_LIBRARY_PATH=lib/emulated ./program\n"
    "Presets: ";

void print_usage(FILE* out) { std::fprintf(out, "%s%s\n", kUsage, preset_names().c_str()); }

bool positive(const char* text, double* value) {
  char* end = nullptr;
  *value = std::strtod(text, &end);
  return end != text && *end == '\0' && *value > 0;
}

bool parse(int argc, char** argv, Arguments* out) {
  if (argc < 2) return false;
  out->verb = argv[1];
  for (int i = 2; i < argc; i++) {
    std::string flag = argv[i];
    if (flag == "--json") {
      out->json = true;
      continue;
    }
    if (!flag.starts_with("--")) {
      out->words.push_back(flag);
      continue;
    }
    if (i + 1 == argc) return false;
    const char* value = argv[++i];
    double number = 0;
    if (flag == "--node") {
      out->node = value;
    } else if (flag == "--config") {
      out->config = value;
    } else if (flag == "--time-scale" && positive(value, &number)) {
      out->time_scale = number;
    } else if (flag == "--memory-scale" && positive(value, &number) && number >= 1) {
      out->memory_scale = number;
    } else if (flag == "--device" && std::strspn(value, "0123456789") == std::strlen(value)) {
      out->device = std::atoi(value);
    } else if (flag == "--devices" && positive(value, &number) && number <= kMaxDevices) {
      out->devices = static_cast<int>(number);
    } else {
      std::fprintf(stderr, "emulated-gpu: bad argument %s %s\n", flag.c_str(), value);
      return false;
    }
  }
  return !out->node.empty();
}

int create(const Arguments& arguments) {
  NodeSpec spec;
  std::string error;
  bool made = read_node_spec(arguments.config, &spec, &error);
  if (made) {
    if (arguments.time_scale > 0) spec.time_scale = arguments.time_scale;
    if (arguments.memory_scale > 0) spec.memory_scale = arguments.memory_scale;
    if (arguments.devices > 0) spec.device_count = arguments.devices;
    made = Node::create(arguments.node, spec, &error) != nullptr;
  }
  if (!made) std::fprintf(stderr, "emulated-gpu: %s\n", error.c_str());
  return made ? 0 : 1;
}

int processes_on(const NodeState& state, int device) {
  int count = 0;
  for (const ProcessRow& row : state.rows) count += row.used && row.contexts[device] > 0;
  return count;
}

void show_device(Node& node, Node::Guard& guard, int device, bool json, bool first) {
  const DeviceModel& model = guard.model(device);
  DeviceSpec spec = guard.spec_of(device);
  const DeviceState& whole = guard->devices[device_of_partition(device)];
  char raw[16];
  std::printf(
      json ? "%s{\"index\":%d,\"uuid\":\"%s\",\"name\":\"%s\",\"memory_total_bytes\":%llu,"
             "\"memory_used_bytes\":%llu,\"busy_ns\":%lld,\"utilization_percent\":%d,"
             "\"active_kernels\":%d,\"processes\":%d,\"host_to_device_bytes\":%llu,"
             "\"device_to_host_bytes\":%llu}"
           : "%sdevice %d  %s  %s\n  memory %llu bytes, %llu used\n  busy %lld ns, "
             "utilisation %d %%, %d kernels active, %d processes\n  links: %llu bytes to the "
             "device, %llu from it\n",
      json && !first ? "," : "", device, node.device_uuid(device, raw).c_str(), spec.name,
      static_cast<unsigned long long>(spec.memory_bytes),
      static_cast<unsigned long long>(guard.used_bytes(device)),
      static_cast<long long>(model.busy_ns), utilization_percent(model), active_kernels(model),
      processes_on(*guard, device), static_cast<unsigned long long>(whole.links.host[0].bytes),
      static_cast<unsigned long long>(whole.links.host[1].bytes));
}

int show(const Arguments& arguments) {
  auto node = open_existing(arguments);
  if (!node) return 1;
  Node::Guard guard(*node);
  guard.reap(true);
  const NodeSpec& spec = node->spec();
  const auto slips = static_cast<unsigned long long>(guard->clock_slips);
  if (arguments.json) {
    std::printf(
        "{\"now_ns\":%lld,\"time_scale\":%g,\"memory_scale\":%g,\"clock_slips\":%llu,\"devices\":[",
        static_cast<long long>(guard.now_ns()), spec.time_scale, spec.memory_scale, slips);
  } else {
    std::printf("virtual time %lld ns, time scale %g, memory scale %g, %llu clock slips\n",
                static_cast<long long>(guard.now_ns()), spec.time_scale, spec.memory_scale, slips);
  }
  bool first = true;
  for (int i : guard.partitions()) {
    show_device(*node, guard, i, arguments.json, first);
    first = false;
  }
  if (arguments.json) std::printf("]}\n");
  return 0;
}

}  // namespace

namespace lambent::emulated_node {

std::unique_ptr<Node> open_existing(const Arguments& arguments) {
  if (access(arguments.node.c_str(), R_OK) != 0) {
    std::fprintf(stderr, "emulated-gpu: there is no %s; make it with 'create'\n",
                 arguments.node.c_str());
    return nullptr;
  }
  std::string error;
  auto node = Node::open(arguments.node, arguments.config, &error);
  if (!node) std::fprintf(stderr, "emulated-gpu: %s\n", error.c_str());
  if (!node) return nullptr;
  { const Node::Guard look(*node); }
  return node->is_cut_off() ? nullptr : std::move(node);  // it has said why
}

}  // namespace lambent::emulated_node

int main(int argc, char** argv) {
  Arguments arguments;
  bool help = argc == 2 && (!std::strcmp(argv[1], "--help") || !std::strcmp(argv[1], "-h"));
  if (help || !parse(argc, argv, &arguments)) {
    print_usage(help ? stdout : stderr);
    return help ? 0 : 2;
  }
  if (arguments.verb == "create") return create(arguments);
  if (arguments.verb == "show") return show(arguments);
  if (auto status = change(arguments)) return *status;
  print_usage(stderr);
  return 2;
}
