// A field of the configuration is defined once, as a row in config.proto: the annotated file shows
// the values that the daemon uses. config_file_test.cc tests the bounds.
#include "daemon/process/settings.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>

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
using testing::HasSubstr;

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
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equivalent(*written, *defaults));
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
