// The words for links that scripts read, and numbers of other releases.
#include "proto/status_words.h"

#include <gtest/gtest.h>

#include <string>

#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>

namespace mlxcomm::status_words_test {
namespace {

// Why: scripts read these words.
TEST(StatusWordsTest, JsonHasStatesAndReasonsAsWords) {
  v1::LinkStatus link;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "state: grace reason: wrong_key rails { transport: tcp state: up }", &link));
  std::string text;
  google::protobuf::util::JsonPrintOptions format;
  format.preserve_proto_field_names = true;
  ASSERT_TRUE(google::protobuf::util::MessageToJsonString(link, &text, format).ok());
  for (const char* const part : {R"("state":"grace")", R"("reason":"wrong_key")",
                                 R"("transport":"tcp")", R"("state":"up")"}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

TEST(StatusWordsTest, ReplacesAnUnknownReason) {
  EXPECT_EQ(LinkReasonOf(10, LinkReason::kNone), LinkReason::kWrongKey);
  for (const std::uint32_t number : {0u, kLinkReasons, 255u, 256u + 10u, 0xffffffffu}) {
    EXPECT_EQ(LinkReasonOf(number, LinkReason::kWayEnded), LinkReason::kWayEnded) << number;
  }
}

}  // namespace
}  // namespace mlxcomm::status_words_test
