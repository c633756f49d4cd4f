# A build for people who edit: small batches, so that an edited source is compiled again soon.
#   cmake -C config/edit.cmake -S . -B build/edit -G Ninja
# CMake's presets would need a file at the top of the tree, which holds no other files.
set(CMAKE_UNITY_BUILD_BATCH_SIZE 6 CACHE STRING "Sources that are compiled together")
set(MLXCOMM_TESTS ON CACHE BOOL "Build the tests")
