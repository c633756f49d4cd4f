// launch --copy: the folder of the script on the other hosts, as it is here.
//
// Thread: main; blocks while files are copied. Memory: none that stays.
#pragma once

#include <string>
#include <vector>

#include "proto/types/failure.h"

namespace mlxcomm::ctl {

// The folder that --copy copies for this command, an absolute path. INVALID_ARGUMENT: there is no
// script here, or its folder is too much to copy.
Failure FolderToCopy(const std::vector<std::string>& command, const std::string& directory,
                     std::string& folder);

// Copies `folder` to the same path on `host` with rsync, over `ssh`; nothing is deleted there.
Failure CopyFolder(const std::string& folder, const std::string& host, const std::string& ssh);

}  // namespace mlxcomm::ctl
