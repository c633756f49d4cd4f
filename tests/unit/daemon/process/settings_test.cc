// A field of the configuration is defined once, as a row in config.proto: its bounds are checked,
// and the annotated file shows the values that the daemon uses.
#include "daemon/process/settings.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "daemon/process/config_file.h"
#include "mlxcomm/v1/config.pb.h"
#include "mlxcomm/v1/setting.pb.h"

namespace mlxcomm::settings_test {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> Mistakes(const google::protobuf::Message& message) {
  std::vector<std::string> mistakes;
  CheckSettings(message,
                [&](const FieldDescriptor&, const std::string& what) { mistakes.push_back(what); });
  return mistakes;
}

bool IsNumber(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_UINT32 ||
         field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64;
}

std::vector<std::string> Lines() { return absl::StrSplit(AnnotatedConfig(), '\n'); }

template <typename Look>
void ForEachField(const Descriptor& message, Look look) {
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    const bool is_section =
        !field.is_repeated() && field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (is_section) {
      ForEachField(*field.message_type(), look);
    } else {
      look(field);
    }
  }
}

TEST(SettingsTest, DefaultsAreWithinTheirBounds) {
  EXPECT_THAT(Mistakes(v1::DaemonConfig()), IsEmpty());
  EXPECT_THAT(Mistakes(v1::PeerConfig()), IsEmpty());
  EXPECT_THAT(Mistakes(v1::DiscoveryConfig()), IsEmpty());
  EXPECT_THAT(Mistakes(v1::ClientConfig()), IsEmpty());
  EXPECT_THAT(Mistakes(v1::RdmaConfig()), IsEmpty());
}

TEST(SettingsTest, BoundsAreCheckedAndReported) {
  v1::DiscoveryConfig discovery;
  discovery.set_port(65535);
  EXPECT_THAT(Mistakes(discovery), IsEmpty());
  discovery.set_port(65536);
  EXPECT_THAT(Mistakes(discovery), ElementsAre("port: expected 1 to 65535, got 65536"));
  discovery.set_port(0);
  EXPECT_THAT(Mistakes(discovery), ElementsAre("port: expected 1 to 65535, got 0"));
}

TEST(SettingsTest, ZeroMayMeanTheDefaultAndMultiplesMayBeRequired) {
  v1::RdmaConfig rdma;
  rdma.set_message_bytes(0);
  EXPECT_THAT(Mistakes(rdma), IsEmpty());
  rdma.set_message_bytes(4097);
  EXPECT_THAT(Mistakes(rdma),
              ElementsAre("message_bytes: expected 0, or 4096 to 1048576, a multiple of 4096, got "
                          "4097"));
}

TEST(SettingsTest, AFieldMayBeTheMinimumOfAnother) {
  v1::PeerConfig peers;
  peers.set_heartbeat_interval_ms(3000);
  peers.set_heartbeat_timeout_ms(3000);
  EXPECT_THAT(Mistakes(peers),
              ElementsAre("heartbeat_timeout_ms: expected 3001 to 600000, got 3000"));
  peers.set_heartbeat_timeout_ms(3001);
  peers.set_reconnect_delay_min_ms(2000);
  peers.set_reconnect_delay_max_ms(2000);
  EXPECT_THAT(Mistakes(peers), IsEmpty());
}

// Why: a field without bounds accepts anything; one without help is not found.
TEST(SettingsTest, EveryFieldHasARow) {
  const Descriptor& config = *v1::DaemonConfig::descriptor();
  for (int i = 0; i < config.field_count(); ++i) {
    const Descriptor* const section = config.field(i)->message_type();
    if (section == nullptr) continue;
    EXPECT_FALSE(section->options().GetExtension(v1::about).empty())
        << std::string(section->name());
  }
  ForEachField(*v1::DaemonConfig::descriptor(), [&](const FieldDescriptor& field) {
    const v1::Setting& setting = field.options().GetExtension(v1::setting);
    SCOPED_TRACE(std::string(field.full_name()));
    EXPECT_FALSE(setting.help().empty());
    EXPECT_EQ(setting.help().back(), '.');
    if (IsNumber(field)) {
      EXPECT_TRUE(setting.has_most());
      EXPECT_TRUE(setting.has_least() || setting.has_above() || setting.has_not_below());
    } else if (!field.has_default_value() || field.is_repeated() ||
               field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      EXPECT_GT(setting.example_size(), 0);
    }
    for (const std::string& other : {setting.above(), setting.not_below()}) {
      if (other.empty()) continue;
      EXPECT_NE(field.containing_type()->FindFieldByName(other), nullptr);
    }
  });
}

TEST(SettingsTest, TheAnnotatedFileIsTheDefaults) {
  const absl::StatusOr<v1::DaemonConfig> written = ParseConfig(AnnotatedConfig(), "annotated");
  const absl::StatusOr<v1::DaemonConfig> defaults = ParseConfig("", "defaults");
  ASSERT_TRUE(written.ok()) << written.status();
  ForEachField(*v1::DaemonConfig::descriptor(), [&](const FieldDescriptor& field) {
    EXPECT_THAT(AnnotatedConfig(), HasSubstr(std::string(field.name())));
  });
  // Written fields have the same values as unwritten ones.
  v1::DaemonConfig all = *defaults;
  all.MergeFrom(*written);
  EXPECT_EQ(all.SerializeAsString(), written->SerializeAsString());
  EXPECT_THAT(Mistakes(written->peers()), IsEmpty());
  const auto differs = [](const google::protobuf::Message& one,
                          const google::protobuf::Message& other) {
    const auto& reflection = *one.GetReflection();
    std::string names;
    for (int i = 0; i < one.GetDescriptor()->field_count(); ++i) {
      const FieldDescriptor& field = *one.GetDescriptor()->field(i);
      if (!IsNumber(field) || field.is_repeated()) continue;
      const bool is_small = field.cpp_type() == FieldDescriptor::CPPTYPE_UINT32;
      const bool same =
          is_small ? reflection.GetUInt32(one, &field) == reflection.GetUInt32(other, &field)
                   : reflection.GetUInt64(one, &field) == reflection.GetUInt64(other, &field);
      if (!same) names += std::string(field.name()) + " ";
    }
    return names;
  };
  EXPECT_EQ(differs(*written, *defaults), "");
  EXPECT_EQ(differs(written->peers(), defaults->peers()), "");
  EXPECT_EQ(differs(written->clients(), defaults->clients()), "");
  EXPECT_EQ(differs(written->discovery(), defaults->discovery()), "");
  EXPECT_EQ(differs(written->rdma(), defaults->rdma()), "");
}

// Why: people uncomment these examples.
TEST(SettingsTest, EveryExampleIsAccepted) {
  std::string text;
  for (const std::string& line : Lines()) {
    std::string rest = line;
    rest.erase(0, rest.find_first_not_of(' '));
    bool is_example = rest.starts_with("# ");
    if (is_example) rest.erase(0, 2);
    const std::size_t end = rest.find_first_of(": ");
    const std::string behind = end == std::string::npos ? "" : rest.substr(end, 2);
    is_example = is_example && (behind == ": " || behind == " {");  // Not a sentence about a field.
    bool is_field = false;
    ForEachField(*v1::DaemonConfig::descriptor(), [&](const FieldDescriptor& field) {
      is_field = is_field || rest.substr(0, end) == std::string(field.name());
    });
    if (is_example && is_field) {
      text += rest + "\n";
    } else {
      text += line + "\n";
    }
  }
  const absl::StatusOr<v1::DaemonConfig> config = ParseConfig(text, "examples");
  ASSERT_TRUE(config.ok()) << config.status() << "\n" << text;
  EXPECT_EQ(config->cluster(), "studio");
  EXPECT_EQ(config->peers().connect_size(), 2);
  EXPECT_EQ(config->peers().interface_security_size(), 1);
}

TEST(SettingsTest, LinesAreShort) {
  for (const std::string& line : Lines()) {
    EXPECT_LE(line.size(), 100u) << line;
  }
}

}  // namespace
}  // namespace mlxcomm::settings_test
