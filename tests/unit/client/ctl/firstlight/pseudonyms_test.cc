#include "client/ctl/firstlight/pseudonyms.h"

#include <gtest/gtest.h>

namespace mlxcomm::ctl {
namespace {

TEST(PseudonymsTest, ReplacesNamesAsWords) {
  Pseudonyms names(true);
  names.Know("studio", "mac");
  names.Know("studio-max", "mac");
  names.KnowAs("/place/anna", "~");
  names.Know("anna", "user");
  EXPECT_EQ(names.Replace("studio-max to studio, studios: /place/anna/x of anna, annabel"),
            "mac-2 to mac-1, studios: ~/x of user-1, annabel");
}

// Why: the kind of a GID matters; and the same one must be recognizable elsewhere.
TEST(PseudonymsTest, ReplacesAddressesByOthersOfTheirKind) {
  const Pseudonyms names(true);
  EXPECT_EQ(names.Replace("fe80::347c:94ff:fecd:45c4, fe80::1c2:3:4:5%en5, 169.254.7.9"),
            "fe80::200:ff:fe00:1, fe80::1%en5, 169.254.0.1");
  EXPECT_EQ(names.Replace("[fe80::1c2:3:4:5%en5]:7470 and 169.254.7.9:7470."),
            "[fe80::1%en5]:7470 and 169.254.0.1:7470.");
  EXPECT_EQ(names.Replace("::ffff:169.254.7.9 81.2.69.142 2a00:1450::5 36:7c:94:cd:45:c4"),
            "::ffff:169.254.0.1 192.0.2.1 2001:db8::1 02:00:00:00:00:01");
}

TEST(PseudonymsTest, LeavesWhatIsNobodys) {
  const Pseudonyms names(true);
  for (const char* const text : {"127.0.0.1", "::1", "ff02::1", "0.0.0.0:7470", "26.3",
                                 "dead beef: 12:30", "a: b", "::", ""}) {
    EXPECT_EQ(names.Replace(text), text);
  }
}

TEST(PseudonymsTest, LeavesEverythingWhereThatIsAskedFor) {
  Pseudonyms names(false);
  names.Know("studio", "mac");
  EXPECT_EQ(names.Replace("studio 169.254.7.9"), "studio 169.254.7.9");
}

}  // namespace
}  // namespace mlxcomm::ctl
