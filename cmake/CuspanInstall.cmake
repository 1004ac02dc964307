# What is installed beside the programs, and an uninstall target, which removes what the last
# `cmake --install` of this build tree wrote.
#
# Every install() rule belongs to a component: cuspan (all of the folders that name none), software-gpu, slurm (the
# plugin), benchmarks, or licences. CuspanPackages makes packages of the first three.
install(FILES ${CMAKE_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT licences)
# Libraries of which parts are in the programs, as headers or archives: their licences want their notices beside these.
foreach(package IN ITEMS gcc-12-base libcli11-dev libfmt-dev libprotobuf-dev libspdlog-dev libxxhash-dev nlohmann-json3-dev)
  if(EXISTS /usr/share/doc/${package}/copyright)
    install(FILES /usr/share/doc/${package}/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR}/third-party RENAME ${package})
  endif()
endforeach()

add_custom_target(uninstall
  COMMAND ${CMAKE_COMMAND} -DMANIFEST=${CMAKE_BINARY_DIR}/install_manifest.txt
          -P ${CMAKE_SOURCE_DIR}/cmake/Uninstall.cmake)
