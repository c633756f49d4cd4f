// Says to the system how much somebody waits for what the calling thread does.
//
// macOS gives threads that say nothing its efficiency cores when there is much to do, and lets their
// timers be late; neither a thread nor a program that is started has it of who starts it. Linux has no
// such thing.
//
// Thread: the one that it is about.
#pragma once

namespace mlxcomm::platform {

// The user waits for it: loop, rails, workers, who calls a device's driver.
void ServeWhoWaits();

}  // namespace mlxcomm::platform
