#include "client/ctl/secrets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_replace.h"
#include "proto/key/key_code.h"

namespace mlxcomm::ctl {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Key() {
  std::string key;
  for (int i = 0; i < 32; ++i) key += static_cast<char>(i * 7 + 200);
  return key;
}

TEST(SecretsTest, AKnownKeyGoesInEveryForm) {
  const std::string key = Key();
  const std::string hex = absl::BytesToHexString(key);
  ASSERT_THAT(KeysIn(hex + "\n"), testing::ElementsAre(key));
  const std::string forms[] = {key, hex, absl::AsciiStrToUpper(hex), absl::Base64Escape(key),
                               absl::WebSafeBase64Escape(key)};
  std::string text;
  for (const std::string& form : forms) text += "x " + form + " y" + form + "\n";
  const std::string clean = WithoutSecrets(text, {key});
  for (const std::string& form : forms) EXPECT_THAT(clean, Not(HasSubstr(form)));
  EXPECT_THAT(clean, HasSubstr("x (removed: a key) y(removed: a key)\n"));
}

// Why: who makes a report may not be allowed to read the key, but a log may hold it.
TEST(SecretsTest, WhatHasTheFormOfAKeyGoesUnknown) {
  const std::string hex = absl::BytesToHexString(Key());
  std::string colons;
  for (std::size_t i = 0; i < hex.size(); i += 2) colons += (i == 0 ? "" : ":") + hex.substr(i, 2);
  for (const std::string& form : {hex, colons, absl::Base64Escape(Key()), hex + "00"}) {
    EXPECT_EQ(WithoutSecrets("key=" + form + ";", {}), "key=(removed: a key);") << form;
  }
}

// As mlxcommctl cluster writes it: a name, and two keys while it is being changed.
TEST(SecretsTest, EveryKeyOfAKeyFileIsKnown) {
  const std::string one = Key(), other(32, 'k');
  const std::string hex = absl::BytesToHexString(one) + "\n" + absl::BytesToHexString(other) + "\n";
  EXPECT_THAT(KeysIn("cluster studio\n" + hex), testing::ElementsAre(one, other));
}

// Why: the code is the key, and what people paste where they should not.
TEST(SecretsTest, TheCodeOfAKeyGoesHoweverItIsWritten) {
  const std::string code = WriteKeyCode({"studio", ClusterKey::MakeRandom()});
  const std::string bare = code.substr(code.find(':') + 1);
  const std::string removed = "join studio:(removed: a key)\nnext";
  for (const std::string& form :
       {bare, absl::AsciiStrToLower(bare), absl::StrReplaceAll(bare, {{"-", " "}}),
        absl::StrReplaceAll(bare, {{"-", ""}})}) {
    EXPECT_EQ(WithoutSecrets("join studio:" + form + "\nnext", {}), removed) << form;
  }
}

// Why: a report without node ids, addresses and figures is of no use.
TEST(SecretsTest, EverythingElseStays) {
  const std::string text =
      "node 0123456789abcdef0123456789abcdef at fe80::1 took 123456789 ns, "
      "operation all_reduce sum float32[8192] over en2 ab cd ef 00:11:22:33:44:55\n";
  EXPECT_EQ(WithoutSecrets(text, {Key()}), text);
  EXPECT_EQ(WithoutSecrets("", {Key(), ""}), "");
  EXPECT_THAT(KeysIn("no key"), testing::IsEmpty());
}

}  // namespace
}  // namespace mlxcomm::ctl
