// A daemon of an older release answers with words alone, and such a one asks.
#include "proto/status_words.h"

#include <gtest/gtest.h>

#include <string>

#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>

namespace mlxcomm::status_words_test {
namespace {

template <typename Message>
Message Parsed(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message));
  return message;
}

TEST(StatusWordsTest, StatesOfAnOlderDaemonAreReadFromItsWords) {
  auto node = Parsed<v1::NodeStatus>(
      R"(links { peer: "b" state_word: "grace" rails { transport_word: "route" state_word: "up" }
                 rails { transport_word: "tcp" state_word: "down" } }
         links { peer: "c" state_word: "lost" detail: "lost: its daemon has ended" })");
  ReadOlderWords(node);
  const v1::LinkStatus& link = node.links(0);
  EXPECT_EQ(link.state(), v1::LinkState::grace);
  EXPECT_EQ(link.reason(), v1::LinkReason::none) << "it has said none";
  EXPECT_EQ(link.rails(0).transport(), v1::Transport::route);
  EXPECT_EQ(link.rails(0).state(), v1::RailState::up);
  EXPECT_EQ(link.rails(1).state(), v1::RailState::down);
  EXPECT_FALSE(link.has_state_word()) << "which --json would show beside the state";
  EXPECT_EQ(node.links(1).detail(), "its daemon has ended") << "the state says the rest";
  auto topology = Parsed<v1::TopologyReply>(
      R"(cables { state_word: "up" rails { transport_word: "rdma" state_word: "down" } })");
  ReadOlderWords(topology);
  EXPECT_EQ(topology.cables(0).state(), v1::RailState::up);
  EXPECT_EQ(topology.cables(0).rails(0).transport(), v1::Transport::rdma);
}

// Another node's answer may be anything.
TEST(StatusWordsTest, AWordThatNobodyKnowsIsNoState) {
  auto link = Parsed<v1::LinkStatus>(R"(state_word: "splendid" rails { transport_word: "" })");
  ReadOlderWords(link);
  EXPECT_EQ(link.state(), v1::LinkState::unknown);
  EXPECT_EQ(link.rails(0).transport(), v1::Transport::unknown);
  auto both = Parsed<v1::LinkStatus>(R"(state: up state_word: "lost")");
  ReadOlderWords(both);
  EXPECT_EQ(both.state(), v1::LinkState::up) << "who knows the values means them";
}

TEST(StatusWordsTest, AnOlderDaemonReadsWhatItAlwaysRead) {
  auto node = Parsed<v1::NodeStatus>(
      "links { state: up rails { transport: tcp state: up } rails { transport: rdma state: down } "
      "}");
  WriteOlderWords(node);
  EXPECT_EQ(node.links(0).state_word(), "up");
  EXPECT_EQ(node.links(0).rails(0).transport_word(), "tcp");
  EXPECT_EQ(node.links(0).rails(1).transport_word(), "rdma");
  EXPECT_EQ(node.links(0).rails(1).state_word(), "down");
  ReadOlderWords(node);
  EXPECT_FALSE(node.links(0).has_state_word());
  EXPECT_EQ(node.links(0).state(), v1::LinkState::up);
}

TEST(StatusWordsTest, ReasonsOfRdmaHaveTheWordsOfOlderReleases) {
  const std::pair<const char*, v1::LinkReason::Value> words[] = {
      {"looking", v1::LinkReason::rdma_looking},
      {"no library", v1::LinkReason::rdma_no_library},
      {"no answer", v1::LinkReason::rdma_driver_silent},
      {"failed", v1::LinkReason::rdma_driver_failed},
      {"no device", v1::LinkReason::rdma_no_device},
      {"port", v1::LinkReason::rdma_port_down},
      {"no GID", v1::LinkReason::rdma_no_gid},
      {"tls", v1::LinkReason::rdma_encrypted},
      {"set-up", v1::LinkReason::rdma_being_made}};
  for (const auto& [word, reason] : words) {
    EXPECT_EQ(RdmaWord(reason, /*peers_reason=*/false), word);
    v1::RailStatus rail;
    rail.mutable_rdma()->set_reason(word);
    ReadOlderWords(rail);
    EXPECT_EQ(rail.reason(), reason) << word;
    EXPECT_FALSE(rail.peers_reason());
  }
  EXPECT_EQ(RdmaWord(v1::LinkReason::none, false), "");
  EXPECT_EQ(RdmaWord(v1::LinkReason::rdma_exhausted, false), "set-up");
  EXPECT_EQ(RdmaWord(v1::LinkReason::rdma_exhausted, true), "peer");
  v1::RailStatus refused;
  refused.mutable_rdma()->set_reason("peer");
  ReadOlderWords(refused);
  EXPECT_EQ(refused.reason(), v1::LinkReason::rdma_no_offer);
  EXPECT_TRUE(refused.peers_reason());
  auto devices = Parsed<v1::RdmaStatus>(R"(state: "no library")");
  ReadOlderWords(devices);
  EXPECT_EQ(devices.reason(), v1::LinkReason::rdma_no_library);
}

// Why: scripts read these words; releases before the enums printed them.
TEST(StatusWordsTest, JsonHasTheSameWordsAsEver) {
  auto link =
      Parsed<v1::LinkStatus>("state: grace reason: wrong_key rails { transport: tcp state: up }");
  std::string text;
  google::protobuf::util::JsonPrintOptions format;
  format.preserve_proto_field_names = true;
  ASSERT_TRUE(google::protobuf::util::MessageToJsonString(link, &text, format).ok());
  for (const char* const part : {R"("state":"grace")", R"("reason":"wrong_key")",
                                 R"("transport":"tcp")", R"("state":"up")"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

TEST(StatusWordsTest, ANumberOfAnotherReleaseIsTheReasonThatIsAskedForInItsPlace) {
  EXPECT_EQ(LinkReasonOf(10, LinkReason::kNone), LinkReason::kWrongKey);
  for (const std::uint32_t number : {0u, kLinkReasons, 255u, 256u + 10u, 0xffffffffu}) {
    EXPECT_EQ(LinkReasonOf(number, LinkReason::kWayEnded), LinkReason::kWayEnded) << number;
  }
}

}  // namespace
}  // namespace mlxcomm::status_words_test
