#include "emulator/emulated_cuda/graph_dot.h"

#include <cstdio>

#include "emulator/emulated_cuda/process.h"

namespace lambent::emulated_cuda {

namespace {

const char* type_name(CUgraphNodeType type) {
  static constexpr const char* kNames[] = {
      "KERNEL",       "MEMCPY",       "MEMSET",           "HOST",           "GRAPH",     "EMPTY",
      "EVENT_WAIT",   "EVENT_RECORD", "SEMAPHORE_SIGNAL", "SEMAPHORE_WAIT", "MEM_ALLOC", "MEM_FREE",
      "BATCH_MEM_OP", "CONDITIONAL"};
  return kNames[type];
}

class Printer {
 public:
  Printer(std::string* out, unsigned flags) : out_(*out), flags_(flags) {}

  void graph(const Graph& graph, const char* keyword) {
    line("%s%llu {", keyword, static_cast<unsigned long long>(graph.id()));
    for (const auto& node : graph.nodes()) {
      out_ += "  node_" + std::to_string(node->id) + " [label=\"" + label(*node) + "\"];\n";
      if (auto* child = std::get_if<ChildGraph>(&node->work)) {
        cluster(*child->graph);
      } else if (auto* conditional = std::get_if<Conditional>(&node->work)) {
        for (const auto& body : conditional->bodies) cluster(*body);
      }
    }
    for (const auto& node : graph.nodes()) {
      for (const Edge& edge : node->dependencies) {
        line("  node_%llu -> node_%llu;", id(*edge.node), id(*node));
      }
    }
    line("}");
  }

 private:
  void cluster(const Graph& inner) { graph(inner, "subgraph cluster_"); }
  static unsigned long long id(const GraphNode& node) { return node.id; }
  bool asked(unsigned flag) const { return flags_ & (flag | CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE); }

  std::string label(const GraphNode& node) const {
    std::string text = type_name(node.type());
    if (auto* operation = std::get_if<Operation>(&node.work)) {
      auto* launch = std::get_if<KernelLaunch>(operation);
      if (launch && asked(CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS)) {
        const emulated_launch& shape = launch->shape;
        char size[96];
        std::snprintf(size, sizeof size, "\\n%u x %u x %u blocks of %u x %u x %u", shape.grid.x,
                      shape.grid.y, shape.grid.z, shape.block.x, shape.block.y, shape.block.z);
        text += "\\n" + launch->function->name + size;
      }
    }
    if (asked(CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES)) {
      char handle[32];
      std::snprintf(handle, sizeof handle, "\\n%p", static_cast<const void*>(&node));
      text += handle;
    }
    return text;
  }

  template <class... Arguments>
  void line(const char* format, Arguments... arguments) {
    char text[512];
    std::snprintf(text, sizeof text, format, arguments...);
    out_ += text;
    out_ += '\n';
  }
  void line(const char* text) { (out_ += text) += '\n'; }

  std::string& out_;
  unsigned flags_;
};

}  // namespace

std::string dot_text(const Graph& graph, unsigned flags) {
  std::string text;
  Printer(&text, flags).graph(graph, "digraph graph_");
  return text;
}

}  // namespace lambent::emulated_cuda
