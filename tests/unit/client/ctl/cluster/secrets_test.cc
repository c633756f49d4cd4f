#include "client/ctl/cluster/secrets.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "proto/key/key_code.h"

namespace mlxcomm::ctl::secrets_test {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Key() {
  std::string key;
  for (int i = 0; i < 32; ++i) key += static_cast<char>(i * 7 + 200);
  return key;
}

std::string CodeOf(const std::string& key) {
  ClusterKey::Bytes bytes{};
  std::copy(key.begin(), key.end(), bytes.begin());
  return WriteKeyCode({"studio", ClusterKey(bytes)});
}

// Why: the file may begin with a name, and has two keys during a rotation.
TEST(SecretsTest, FindsEachKeyOfAKeyFile) {
  const std::string hex = absl::BytesToHexString(Key());
  const std::string old(32, 'o');
  EXPECT_EQ(KeysIn(hex + "\n"), std::vector<std::string>{Key()});
  EXPECT_EQ(KeysIn("cluster studio\n" + hex + "\n" + absl::BytesToHexString(old) + "\n"),
            (std::vector<std::string>{Key(), old}));
  EXPECT_TRUE(KeysIn("no key").empty());
  EXPECT_TRUE(KeysIn("").empty());
}

TEST(SecretsTest, RemovesAKnownKeyInEveryForm) {
  const std::string key = Key();
  const std::string hex = absl::BytesToHexString(key);
  const std::string code = CodeOf(key);
  std::string run = code.substr(code.find(':') + 1);
  std::erase(run, '-');
  const std::string forms[] = {key,
                               hex,
                               absl::AsciiStrToUpper(hex),
                               absl::Base64Escape(key),
                               absl::WebSafeBase64Escape(key),
                               code.substr(code.find(':') + 1),
                               run,
                               absl::AsciiStrToLower(run)};
  std::string text;
  for (const std::string& form : forms) text += "x " + form + " y" + form + "\n";
  const std::string clean = WithoutSecrets(text, {key});
  for (const std::string& form : forms) EXPECT_THAT(clean, Not(HasSubstr(form)));
  EXPECT_THAT(clean, HasSubstr("x (removed: a key) y(removed: a key)\n"));
}

// Why: the user who makes a report may not be able to read the key, but a log may contain it.
TEST(SecretsTest, RemovesUnknownTextThatLooksLikeAKey) {
  const std::string hex = absl::BytesToHexString(Key());
  std::string colons;
  for (std::size_t i = 0; i < hex.size(); i += 2) colons += (i == 0 ? "" : ":") + hex.substr(i, 2);
  const std::string code = CodeOf(Key()).substr(sizeof "studio:" - 1);
  std::string blanks = absl::AsciiStrToLower(code);
  std::replace(blanks.begin(), blanks.end(), '-', ' ');
  for (const std::string& form :
       {hex, colons, absl::Base64Escape(Key()), hex + "00", code, blanks}) {
    EXPECT_EQ(WithoutSecrets("key=" + form + ";", {}), "key=(removed: a key);") << form;
  }
}

// Why: a report without node ids, addresses and figures is useless.
TEST(SecretsTest, KeepsEverythingElse) {
  const std::string text =
      "node 0123456789abcdef0123456789abcdef at fe80::1 took 123456789 ns, "
      "operation all_reduce sum float32[8192] over en2 ab cd ef 00:11:22:33:44:55\n";
  EXPECT_EQ(WithoutSecrets(text, {Key()}), text);
  EXPECT_EQ(WithoutSecrets("", {Key(), ""}), "");
  const std::string words =
      "that this hour when what they have said went from here into nine more days";
  EXPECT_EQ(WithoutSecrets(words, {Key()}), words);
}

}  // namespace
}  // namespace mlxcomm::ctl::secrets_test
