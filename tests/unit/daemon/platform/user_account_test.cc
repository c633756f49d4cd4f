// Users and groups, checked against those that every system has.
#include "daemon/platform/user_account.h"

#include <grp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

namespace mlxcomm::platform::user_account_test {
namespace {

TEST(UserAccountTest, KnowsRootAndItsFirstGroup) {
  const auto root = FindAccount(0);
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ(root->name, "root");
  EXPECT_EQ(std::count(root->groups.begin(), root->groups.end(), root->group), 1);
}

TEST(UserAccountTest, FindsAGroupByItsName) {
  const group* const first = ::getgrgid(0);
  ASSERT_NE(first, nullptr);
  const auto found = FindGroup(first->gr_name);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, 0u);
}

TEST(UserAccountTest, ReportsUnknownUsersAndGroups) {
  EXPECT_EQ(FindAccount(4'000'000'123u).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(FindGroup("no-such-group-here").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace mlxcomm::platform::user_account_test
