// A plan as a picture: what is drawn, and that the text is in Graphviz's language.
#include "client/ctl/plan/draw_plan.h"

#include <cctype>
#include <string>

#include <gtest/gtest.h>

#include <google/protobuf/text_format.h>

namespace mlxcomm::ctl::draw_plan_test {
namespace {

v1::PlanReply ParsedPlan(const std::string& text) {
  v1::PlanReply plan;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &plan));
  return plan;
}

// As much of the language as is written here: braces and brackets in pairs, quotes closed,
// each statement ended; what is outside of quotes is names, numbers and arrows.
bool IsGraph(const std::string& text) {
  std::string open;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\n') return false;
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
      continue;
    }
    if (c == '"') quoted = true;
    if (c == '{' || c == '[') open += c;
    if (c == '}' || c == ']') {
      if (open.empty() || open.back() != (c == '}' ? '{' : '[')) return false;
      open.pop_back();
      if (c == ']' && (i + 1 == text.size() || text[i + 1] != ';')) return false;
    }
    const bool known = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                       std::string("_{}[]=;,.\"-> \n").find(c) != std::string::npos;
    if (!known) return false;
  }
  return !quoted && open.empty() && text.starts_with("digraph plan {\n");
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(DrawPlanTest, DrawsNodesWithTheirRanksAndWhatTheirLinksCarry) {
  const std::string picture = DrawNodes(ParsedPlan(
      R"(operation: "reduce sum float32[256]" bytes: 1024 nodes: 3 ranks_per_node: 2 plan: "tree"
         predicted_ns: 90000
         links { from: 0 to: 1 bytes: 1024 } links { from: 1 to: 0 bytes: 1024 }
         links { from: 2 to: 1 bytes: 2048 })"));
  EXPECT_TRUE(IsGraph(picture)) << picture;
  EXPECT_TRUE(Has(picture,
                  "reduce sum float32[256], 1.0 KiB a rank\\nranks of a node in "
                  "shared memory, then binomial tree of 3 nodes\\npredicted 90.0 us"))
      << picture;
  for (const char* const part :
       {"subgraph cluster_2 {", "label=\"rank 5\"",
        "m0 -> m1 [color=\"#2060a0\", dir=both, label=\"1.0 KiB each way\"];",
        "m2 -> m1 [color=\"#2060a0\", label=\"2.0 KiB\"];"}) {
    EXPECT_TRUE(Has(picture, part)) << part << "\n" << picture;
  }
  EXPECT_FALSE(Has(picture, "m1 -> m0")) << picture;
}

TEST(DrawPlanTest, DrawsManyRanksAsOne) {
  const std::string picture = DrawNodes(ParsedPlan("operation: \"o\" nodes: 2 ranks_per_node: 64"));
  EXPECT_TRUE(IsGraph(picture)) << picture;
  EXPECT_TRUE(Has(picture, "label=\"ranks 64-127\"")) << picture;
}

TEST(DrawPlanTest, DrawsOneNode) {
  EXPECT_TRUE(IsGraph(DrawNodes(ParsedPlan("operation: \"o\" nodes: 1 ranks_per_node: 2"))));
  EXPECT_TRUE(IsGraph(DrawSteps(ParsedPlan("operation: \"o\" nodes: 1 ranks_per_node: 2"))));
}

TEST(DrawPlanTest, DrawsStepsWithWhatTheyWaitForAndMessages) {
  const std::string picture = DrawSteps(ParsedPlan(R"(
      operation: "o" nodes: 2 ranks_per_node: 1 plan: "ring"
      node_plans { node: 0 ranks: 0
        steps { kind: "local" bytes: 8 source_count: 2 }
        steps { kind: "send" node: 1 tag: 7 bytes: 8 after: 0 } }
      node_plans { node: 1 ranks: 1
        steps { kind: "receive" node: 0 tag: 8 bytes: 8 }
        steps { kind: "reduce" node: 0 tag: 7 bytes: 8 finishes: true } })"));
  EXPECT_TRUE(IsGraph(picture)) << picture;
  for (const char* const part :
       {"n0s0 [label=\"0: combine 8 B\"", "n0s0 -> n0s1 [color=gray60];",
        "n1s1 [label=\"1: reduce 8 B from node 0\", fillcolor=\"#f8e3c8\", penwidth=2];",
        "n0s1 -> n1s1 [color=\"#2060a0\", penwidth=1.5];"}) {
    EXPECT_TRUE(Has(picture, part)) << part << "\n" << picture;
  }
  EXPECT_FALSE(Has(picture, "-> n1s0")) << "Nobody has sent that.";
}

// Why: names come from another process; a quote in one must not end its string.
TEST(DrawPlanTest, KeepsNamesInTheirQuotes) {
  v1::PlanReply plan = ParsedPlan("nodes: 2 ranks_per_node: 1");
  for (const char* const evil : {"\"];}", "\\", "a\nb", "\x1b"}) {
    plan.set_operation(evil);
    plan.set_plan(evil);
    EXPECT_TRUE(IsGraph(DrawNodes(plan))) << DrawNodes(plan);
    EXPECT_TRUE(IsGraph(DrawSteps(plan))) << DrawSteps(plan);
    EXPECT_EQ(DrawNodes(plan).find('\x1b'), std::string::npos);
  }
}

}  // namespace
}  // namespace mlxcomm::ctl::draw_plan_test
